"""The tables of the file of chats: their schema, their rows as values, all questions and changes."""
