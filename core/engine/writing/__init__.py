"""The reply of a request: drawn token by token, held to a format, read as text and streamed."""
