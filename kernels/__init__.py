"""One folder per operation; `reference.py` is plain torch, which every backend is compared with."""
