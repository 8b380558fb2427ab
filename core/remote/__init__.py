"""Replies from servers of the user's: OpenAI's protocol, spoken by a child process."""
