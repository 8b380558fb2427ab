"""What is done number by number: gates and sums."""
