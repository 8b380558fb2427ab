"""What layers remember between forwards, and how it is found again."""
