"""JSON taken apart step by step: however deep or long it is, and with its numbers as written.

Python's own reader gives up on what is deeply nested, makes an object of everything at once, and
turns 1e999 into no number at all.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"[ \t\n\r]*+(?:([{}\[\],:])"
    r'|("[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)|$)"
)


class NotJsonError(ValueError):
    """A text is not JSON."""


class Event(enum.Enum):
    """What comes next in a text: something opens or closes, a member's name, a plain value."""

    OPEN = enum.auto()
    CLOSE = enum.auto()
    NAME = enum.auto()
    VALUE = enum.auto()


class _Awaited(enum.Enum):
    """What may come: of the first two also the end of what was opened just before."""

    FIRST_VALUE = enum.auto()
    FIRST_NAME = enum.auto()
    VALUE = enum.auto()
    NAME = enum.auto()
    COLON = enum.auto()
    END = enum.auto()


_ENDS = {"{": "}", "[": "]"}


def events(text: str) -> Iterator[tuple[Event, str]]:
    """What a text is made of, each with its characters. Raises NotJsonError, also at its end."""
    opened: list[str] = []
    awaited = _Awaited.VALUE
    for token in _tokens(text):
        is_first = awaited in (_Awaited.FIRST_VALUE, _Awaited.FIRST_NAME)
        if opened and token == _ENDS[opened[-1]] and (is_first or awaited is _Awaited.END):
            opened.pop()
            yield Event.CLOSE, token
            awaited = _Awaited.END
        elif awaited is _Awaited.COLON and token == ":":
            awaited = _Awaited.VALUE
        elif awaited is _Awaited.END and opened and token == ",":
            awaited = _Awaited.NAME if opened[-1] == "{" else _Awaited.VALUE
        elif awaited in (_Awaited.NAME, _Awaited.FIRST_NAME) and token[0] == '"':
            yield Event.NAME, token
            awaited = _Awaited.COLON
        elif awaited in (_Awaited.VALUE, _Awaited.FIRST_VALUE) and token in _ENDS:
            opened.append(token)
            yield Event.OPEN, token
            awaited = _Awaited.FIRST_NAME if token == "{" else _Awaited.FIRST_VALUE
        elif awaited in (_Awaited.VALUE, _Awaited.FIRST_VALUE) and token not in "}],:":
            yield Event.VALUE, token
            awaited = _Awaited.END
        else:
            raise NotJsonError
    if opened or awaited is not _Awaited.END:
        raise NotJsonError


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotJsonError
        at = found.end()
        if found.lastindex:
            yield found[found.lastindex]
