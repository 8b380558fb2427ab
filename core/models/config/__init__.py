"""What families read of config.json: checked types, and spellings that several share."""
