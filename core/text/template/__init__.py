"""Chat templates: rendered in the helper, asked what they do, with marks in place of texts."""
