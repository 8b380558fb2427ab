"""Softmax attention: causal over a growing list of keys, and over a whole picture."""
