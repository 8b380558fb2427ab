"""The layers of the families, each from its equation, over the ops in kernels."""
