"""Sparse experts: which ones a token goes through, and what comes of them."""
