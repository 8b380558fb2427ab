"""The gated short convolution, whose last columns are carried from run to run."""
