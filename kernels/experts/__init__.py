"""Sparse experts: routing and products."""
