"""Kernels in C for the processor: compiled on the user's machine, for that machine."""
