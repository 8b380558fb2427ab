"""y = x W^T (+ b): weight matrices, in the format that one kernel or another reads fastest."""
