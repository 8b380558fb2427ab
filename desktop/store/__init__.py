"""What outlives the window: folders, chats, settings. Knows no widget and no engine."""
