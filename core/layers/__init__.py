"""The layers that the families share, over the operations in kernels."""
