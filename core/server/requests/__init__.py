"""A client's request: its messages, pictures and parameters, and why it was refused."""
