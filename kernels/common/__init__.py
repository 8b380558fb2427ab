"""Shared by all kernels: memory, shapes, capabilities, traces."""
