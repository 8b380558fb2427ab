"""Gemma 3 and Gemma 4."""
