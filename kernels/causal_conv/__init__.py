"""Depthwise causal convolution with a carried tail."""
