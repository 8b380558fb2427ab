"""From a conversation to token ids and back: template, tokenizer, history, channels, stop rules."""
