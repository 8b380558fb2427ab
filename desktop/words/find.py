"""Searching the shown chat, in words."""

from __future__ import annotations

from desktop.numbers import format_count

NAME = "Find in this chat"
PLACEHOLDER = "Find in this chat"
BEFORE = "The match before this one (Shift+Enter)"
NEXT = "The next match (Enter)"
CLOSE = "Close (Esc)"
NOTHING = "No match"


def place_words(place: int, count: int, more: bool = False) -> str:
    """Which of the matches is shown: '3 of 17', or '3 of 1,200+' where not all were counted."""
    return f"{format_count(place + 1)} of {format_count(count)}{'+' if more else ''}"
