"""A reply that is JSON, as data: read within bounds, indented to be copied, and as Qt's model."""
