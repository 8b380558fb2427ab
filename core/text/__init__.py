"""From a conversation to token ids and back; `chat_text` is the front door."""
