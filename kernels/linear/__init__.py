"""y = x W^T (+ b): weight matrices, in the form that one kernel or another reads fastest."""
