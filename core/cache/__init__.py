"""Memory of layers between forwards, and how it is found again."""
