"""A reply as it is sampled: its channels, its stop strings, the ids that are stored."""
