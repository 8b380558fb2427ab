"""Gates and sums."""
