"""y = x W^T (+ b), with weight matrices in the format that reads fastest."""
