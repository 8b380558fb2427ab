"""What is being written and was not sent yet: drafts, pictures, edits, instructions."""
