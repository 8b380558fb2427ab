"""Stored data: folders, chats, settings. Knows no widget and no engine."""
