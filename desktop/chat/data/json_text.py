"""JSON text token by token: to any depth and length, with numbers as written.

Python's own reader fails on deep nesting, builds every object, and turns 1e999 into infinity.
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
    pass


class Event(enum.Enum):
    OPEN = enum.auto()
    CLOSE = enum.auto()
    NAME = enum.auto()
    VALUE = enum.auto()


class _Awaited(enum.Enum):
    """Tokens that may come next; instead of the first two, also a closing bracket."""

    FIRST_VALUE = enum.auto()
    FIRST_NAME = enum.auto()
    VALUE = enum.auto()
    NAME = enum.auto()
    COLON = enum.auto()
    END = enum.auto()


_ENDS = {"{": "}", "[": "]"}


def events(text: str) -> Iterator[tuple[Event, str]]:
    """The events of a text with their characters. Raises NotJsonError, also at its end."""
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


# Deeper than this, indentation would be longer than the content.
DEEPEST = 32


def pretty(text: str) -> str:
    """The same JSON, indented, with numbers as written. Raises NotJsonError."""
    written: list[str] = []
    depth, before = 0, None
    for event, token in events(text):
        if event is Event.CLOSE:
            depth -= 1
        if event is Event.CLOSE and before is Event.OPEN:
            pass
        elif before is Event.NAME:
            written.append(": ")
        elif before is not None:
            parted = event is not Event.CLOSE and before is not Event.OPEN
            written.append(("," if parted else "") + _new_line(depth))
        written.append(token)
        if event is Event.OPEN:
            depth += 1
        before = event
    return "".join(written)


def _new_line(depth: int) -> str:
    return "\n" + "  " * depth if depth <= DEEPEST else ""
