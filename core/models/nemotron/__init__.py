"""The models of NVIDIA."""
