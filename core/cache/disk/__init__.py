"""Segments: what survives a restart of contexts, as files of the store."""
