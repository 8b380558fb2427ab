"""Self-tests of operations before a model runs."""
