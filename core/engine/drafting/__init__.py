"""Tokens that may come next, to be checked several in one step."""
