"""Forwards through the model: a prompt run by run, a reply token by token."""
