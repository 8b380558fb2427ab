"""Quantised tensors kept on disk, so that a second load of a model quantises nothing again."""
