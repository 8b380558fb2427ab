"""Quantised weights as others publish them: formats, and the exact values of a layer."""
