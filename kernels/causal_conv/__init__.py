"""Depthwise causal convolution whose last columns are carried from run to run."""
