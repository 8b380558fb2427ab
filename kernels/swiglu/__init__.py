"""silu(gate) * up, the middle of a gated feed-forward layer."""
