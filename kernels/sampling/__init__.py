"""Drawing the next token on the device that computed the logits."""
