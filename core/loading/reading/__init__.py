"""Weights files read once, tensor by tensor, into the layouts that kernels want."""
