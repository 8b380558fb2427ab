"""Folds texts for comparison, parses queries, finds matches in the text as written.

Folding goes by characters: a part's folding is a part of the whole's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

# Diacritics of Latin, Greek and Cyrillic. Marks of other scripts tell words apart.
_DIACRITICS = re.compile("[\u0300-\u036f]")
_TERM = re.compile(r'"([^"]+)"|(\S+)')
# A query of more terms would only repeat itself.
MOST_TERMS = 16
BEFORE, AFTER = 60, 240
_BLOCK = 4_096
_PIECE = 100_000


class _Folds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFKD", chr(code).casefold())
        folded = _DIACRITICS.sub("", plain).casefold()
        # One space is as good as another, and SQLite's texts end at a zero.
        self[code] = folded = " " if folded.isspace() or code == 0 else folded
        return folded


_folds = _Folds()


def fold(text: str) -> str:
    """`Café` and `CAFÉ` become `cafe`."""
    # In pieces, between which other threads have their turn.
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return "".join(piece.translate(_folds) for piece in pieces)


def terms_of(query: str) -> tuple[str, ...]:
    """Folded terms, which a message must contain; "..." is one."""
    found = (fold(quoted or word) for quoted, word in _TERM.findall(query))
    return tuple(dict.fromkeys(term for term in found if term))[:MOST_TERMS]


class Extract(NamedTuple):
    """A match as written, with its surroundings in one line."""

    before: str
    match: str
    after: str


def extract(text: str, terms: Sequence[str]) -> Extract:
    """Around the longest term, or the beginning of the text."""
    folded = fold(text)
    term = max(terms, key=len, default="")
    at = folded.find(term) if term else -1
    if at < 0:
        return Extract("", "", _one_line(text[:AFTER]))
    start, end = _original(text, at), _original(text, at + len(term) - 1) + 1
    left = max(0, start - BEFORE)
    before = text[left:start]
    if left:
        # Begins with a whole word if one begins there.
        before = "\N{HORIZONTAL ELLIPSIS}" + (before.partition(" ")[2] or before)
    return Extract(_one_line(before), text[start:end], _one_line(text[end : end + AFTER]))


def _original(text: str, folded: int) -> int:
    """The index in `text` of a folded character's origin."""
    if text.isascii():
        return folded
    place = passed = 0
    while passed + (size := len(fold(text[place : place + _BLOCK]))) <= folded:
        place, passed = place + _BLOCK, passed + size
    while passed + (size := len(fold(text[place]))) <= folded:
        place, passed = place + 1, passed + size
    return place


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
