"""One folder per op: reference.py is plain torch and the truth that every backend is held to."""
