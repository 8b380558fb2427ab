"""The model families, each in one file over the same decoder and block."""
