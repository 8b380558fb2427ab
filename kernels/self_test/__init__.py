"""What operations are tried with before a model runs; see `every`."""
