"""The tables of the file of chats: their schema, rows as values, and what is asked of them."""
