"""One folder per op: reference.py is plain torch, the reference that every backend is held to."""
