"""Softmax attention: causal, and over a whole picture."""
