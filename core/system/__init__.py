"""Operating-system helpers for window, engine and kernels; imports none of them."""
