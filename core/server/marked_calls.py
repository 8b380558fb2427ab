"""Calls of Gemma 4: names and values as in JSON without quotes, and marks around texts.

call:weather{days:3,town:<|"|>Oslo<|"|>}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from core.api.json_text import parse_json
from core.api.reply_format import TEXT_MARK

PYTHON_WORDS = {"True": True, "False": False, "None": None}
_HEAD = re.compile(r"\s*call:([^\s{]+)\s*(?=\{)")
_NAME = re.compile(r"\s*([^\s:{}\[\],][^:{}\[\],]*):")
_WORD = re.compile(r"\s*([^\s,{}\[\]]+)")


def read_marked(text: str) -> tuple[str, object]:
    """The function and the arguments of a call.

    Raises EOFError if the text ends within a marked one, ValueError and RecursionError if it is
    malformed.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("no call")
    values = _Values(text, head.end())
    arguments = values.read()
    if text[values.at :].strip():
        raise ValueError("more than a call")
    return head[1], arguments


class _Values:
    """Reads values from `at` on, as `read_marked` does."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self.at = text, at

    def read(self) -> object:
        if self._takes(TEXT_MARK):
            return self._rest_of_text()
        if self._takes("{"):
            return dict(self._items("}", self._member))
        if self._takes("["):
            return list(self._items("]", self.read))
        word = self._match(_WORD)
        return PYTHON_WORDS[word] if word in PYTHON_WORDS else parse_json(word.encode())

    def _items(self, end: str, item: Callable[[], Any]) -> Iterator[Any]:
        if self._takes(end):
            return
        while True:
            yield item()
            if self._takes(end):
                return
            if not self._takes(","):
                raise ValueError("no comma between items")

    def _member(self) -> tuple[str, object]:
        if not self._takes(TEXT_MARK):
            return self._match(_NAME), self.read()
        name = self._rest_of_text()
        if not self._takes(":"):
            raise ValueError("a name without a value")
        return name, self.read()

    def _rest_of_text(self) -> str:
        start, end = self.at, self._text.find(TEXT_MARK, self.at)
        if end < 0:
            raise EOFError
        self.at = end + len(TEXT_MARK)
        return self._text[start:end]

    def _takes(self, part: str) -> bool:
        start = self.at
        while self._text[start : start + 1].isspace():
            start += 1
        found = self._text.startswith(part, start)
        self.at = start + len(part) if found else self.at
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self.at)
        if found is None:
            raise ValueError("no value")
        self.at = found.end()
        return found[1]
