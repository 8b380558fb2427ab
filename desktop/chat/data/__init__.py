"""Replies in JSON, read within bounds and shown as a table or tree."""
