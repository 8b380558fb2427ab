"""What layers remember between forwards, and how it is found again: slab, states, checkpoints, tree."""
