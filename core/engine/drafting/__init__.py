"""Speculative decoding: drafted tokens, checked several in one step."""
