"""Passes through the model: a prompt run by run, and a reply token by token."""
