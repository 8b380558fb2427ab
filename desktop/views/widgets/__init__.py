"""Drawn parts of the window that know nothing of controllers: they show what they are given."""
