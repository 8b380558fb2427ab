"""What outlives the window: folders, chats, pictures, settings. Knows no widget and no engine."""
