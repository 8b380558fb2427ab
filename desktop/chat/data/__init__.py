"""Structured replies: JSON text, read within bounds and shown as a table or a tree."""
