"""The place where an error was raised, without its message, which may quote people."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path


def trace_of(error: BaseException) -> str:
    return "\n".join(_lines(error))


def place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{at}"


def print_trace(error: BaseException) -> None:
    print(trace_of(error), file=sys.stderr, flush=True)


def report_uncaught(report: Callable[[BaseException], None] = print_trace) -> None:
    """Pass uncaught errors to `report`; Python would print their messages."""

    def told(error: BaseException | None) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            report(error)

    sys.excepthook = lambda _kind, error, _trace: told(error)
    sys.unraisablehook = lambda found: told(found.exc_value)
    threading.excepthook = lambda found: told(found.exc_value)


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
