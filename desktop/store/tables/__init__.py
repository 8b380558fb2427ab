"""The tables of the file of chats. Functions take a connection and run in one transaction."""
