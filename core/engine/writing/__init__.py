"""The reply of a request: sampling, format, text, stream."""
