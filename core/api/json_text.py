"""JSON from strangers, refused if nested too deeply: Python's limit differs between versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 200


# Sentences for json's messages, with the place for {}.
_FAULTS = {
    "Unterminated string starting at": "the string at {} isn't closed",
    "Expecting value": "a value is missing at {}",
    "Expecting ',' delimiter": "a comma is missing at {}",
    "Expecting ':' delimiter": "a colon is missing at {}",
    "Expecting property name enclosed in double quotes": "a name in quotes is missing at {}",
    "Extra data": "there is more after its end at {}",
    "Invalid control character at": "the control character at {} isn't escaped",
}


def json_fault(error: json.JSONDecodeError) -> str:
    """A JSON text's fault and its place, as the second half of a sentence."""
    place = f"line {error.lineno}, column {error.colno}"
    return _FAULTS.get(error.msg, f"{error.msg} at {{}}").format(place)


def json_pointer(path: Iterable[object]) -> str:
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "/".join(("#", *escaped))


class JsonTooDeepError(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")


def parse_json(text: str | bytes | bytearray, **hooks: Callable[..., Any] | None) -> Any:
    """`json.loads` with its `hooks`. Raises ValueError: JSONDecodeError or JsonTooDeepError."""
    try:
        value = json.loads(text, **hooks)  # type: ignore[arg-type]
    except RecursionError:
        raise JsonTooDeepError from None
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise JsonTooDeepError
