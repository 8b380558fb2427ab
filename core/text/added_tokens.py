"""A tokenizer's added tokens (`<|im_end|>`, `<think>` ...), found in a template's own text:
leftmost, then longest, with the whitespace that `lstrip` and `rstrip` let them swallow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from core.api.errors import BrokenTokenizerError

# Whitespace to the tokenizer is Unicode's White_Space; `str.isspace` also accepts 1C to 1F.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True, slots=True)
class AddedToken:
    """Readers see all but `special` ones."""

    id: int
    spelling: str
    special: bool = False
    swallows_before: bool = False
    swallows_after: bool = False
    single_word: bool = False

    @property
    def is_blank(self) -> bool:
        return self.spelling.isspace() and not self.special


Find = Callable[[str], list[tuple[int, int]]]
"""Start and end of each spelling of a token that is not blank, from left to right."""


@dataclass(frozen=True)
class AddedTokens:
    """`find` asks the helper: strangers' spellings can take forever to find."""

    tokens: tuple[AddedToken, ...]
    find: Find

    @classmethod
    def read(cls, entries: list[dict[str, Any]], find: Find) -> AddedTokens:
        try:
            return cls(tuple(_read_entry(entry) for entry in entries if entry["content"]), find)
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenTokenizerError("An added token in tokenizer.json is malformed.") from error

    @cached_property
    def by_spelling(self) -> dict[str, AddedToken]:
        return {token.spelling: token for token in self.tokens}

    @cached_property
    def by_id(self) -> dict[int, AddedToken]:
        return {token.id: token for token in self.tokens}

    def id_of(self, spelling: str | None) -> int | None:
        token = None if spelling is None else self.by_spelling.get(spelling)
        return None if token is None else token.id

    def split(self, text: str) -> Iterator[str | AddedToken]:
        start = 0
        for begin, end in self.find(text):
            token = self.by_spelling[text[begin:end]]
            if token.single_word and _touches_word(text, begin, end):
                continue
            if begin > start:
                yield text[start:begin]
            yield token
            start = end
        if start < len(text):
            yield text[start:]


def _read_entry(entry: dict[str, Any]) -> AddedToken:
    return AddedToken(
        id=int(entry["id"]),
        spelling=str(entry["content"]),
        special=bool(entry.get("special")),
        swallows_before=bool(entry.get("lstrip")),
        swallows_after=bool(entry.get("rstrip")),
        single_word=bool(entry.get("single_word")),
    )


def _touches_word(text: str, begin: int, end: int) -> bool:
    neighbours = text[max(begin - 1, 0) : begin], text[end : end + 1]
    return any(each.isalnum() or each == "_" for each in neighbours)


def without_swallowed(
    text: str, before: AddedToken | None, after: AddedToken | None
) -> tuple[str, int]:
    """Strip the whitespace that two tokens swallow of the text between them; also returns the
    length in front."""
    num_characters = len(text)
    if before is not None and before.swallows_after:
        text = text.lstrip(WHITE_SPACE)
    dropped = num_characters - len(text)
    if after is not None and after.swallows_before:
        text = text.rstrip(WHITE_SPACE)
    return text, dropped
