"""Where an error came from, without its words: those may quote what people wrote."""

from __future__ import annotations

import traceback
from collections.abc import Iterator


def trace_of(error: BaseException) -> str:
    """The error's type and the lines of code it went through, and the same of what caused it."""
    return "\n".join(_lines(error))


def _lines(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield f"{type(current).__name__}, raised at"
        for frame in traceback.extract_tb(current.__traceback__, limit=-20):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
