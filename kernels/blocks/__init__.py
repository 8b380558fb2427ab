"""Blocks of quantised numbers as GGUF files have them: types, layouts and values."""
