"""What all kernels share: memory, shapes, capabilities, traces."""
