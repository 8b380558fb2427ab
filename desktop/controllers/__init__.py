"""What the window does: each controller carries out one kind of wish and says what became of it."""
