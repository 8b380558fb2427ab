"""JSON from strangers, refused where it is nested too deeply.

Python's own limit differs between versions, and code that uses the result may fail below it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 200


class JsonTooDeepError(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")


def parse_json(text: str | bytes | bytearray, **hooks: Callable[..., Any] | None) -> Any:
    """`json.loads` with its `hooks`, such as parse_float.

    Raises ValueError: JSONDecodeError for what isn't JSON, JsonTooDeepError.
    """
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
