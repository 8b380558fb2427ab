"""Operating-system helpers for window, engine and kernels."""
