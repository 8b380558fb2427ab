"""Stored data. Knows no widget and no engine."""
