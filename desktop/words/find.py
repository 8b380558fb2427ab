"""Searching the shown chat, in words."""

from __future__ import annotations

from desktop.words.numbers import count_of, format_count

NAME = "Find in this chat"
PLACEHOLDER = "Find in this chat"
BEFORE = "The match before this one (Shift+Enter)"
NEXT = "The next match (Enter)"
CLOSE = "Close (Esc)"
NOTHING = "No match"


def place_words(place: int, count: int) -> str:
    """Which of the messages that hold the words is shown."""
    return f"{format_count(place + 1)} of {count_of(count, 'message')}"
