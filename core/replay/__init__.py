"""Conversation scripts: their format, and the runner that plays one against a real engine."""
