"""Text to ids and back; the tokenizer itself runs in the helper."""
