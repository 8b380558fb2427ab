"""What all kernels share: views, memory in large pages, sizes, what a machine can do, recorded steps."""
