"""What all kernels share: views, large pages, sizes, what a machine can do, captured steps."""
