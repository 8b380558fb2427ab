"""C kernels for the processor."""
