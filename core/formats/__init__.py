"""Formats of replies: as a grammar for the engine, and as a check of finished replies."""
