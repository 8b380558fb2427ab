"""What goes wrong in the window's process, in a file; never what anyone wrote.

An error's own words may quote texts, so of an error only its type and its way through the code are
kept, whoever reports it: our own code, asyncio, or Python where nobody caught it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any

from core.client.traces import trace_of
from core.system.private_files import open_or_create

LOG_BYTES = 1_000_000

log = logging.getLogger(__name__)

ErrorTriple = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class WordlessFormatter(logging.Formatter):
    """Says where errors came from, and leaves out what they say."""

    def format(self, record: logging.LogRecord) -> str:
        # What another formatter made of the error, its words included, is kept in the record.
        others, record.exc_text = record.exc_text, None
        try:
            return super().format(record)
        finally:
            record.exc_text = others

    def formatException(self, ei: ErrorTriple) -> str:
        return trace_of(ei[1]) if ei[1] is not None else ""


class QuietFile(RotatingFileHandler):
    """A file of this user's alone that is not complained about where it can't be written."""

    def _open(self) -> TextIOWrapper:
        handle = open_or_create(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND)
        return os.fdopen(handle, "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """Python's own way prints all errors on the way here, in their words."""


@contextlib.contextmanager
def kept_log(file: Path) -> Iterator[None]:
    """Keep warnings and errors in `file` for as long as this is open."""
    handler = QuietFile(file, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(WordlessFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        # A full disk must not hide what the app ends with.
        with contextlib.suppress(OSError):
            handler.close()


def log_uncaught(error: BaseException) -> None:
    """Log an error that nobody caught, and print its type alone."""
    log.error("An error that nobody caught: %s", trace_of(error))
    print(f"Waymark met an error: {type(error).__name__}", file=sys.stderr, flush=True)


def report_from_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's own handler prints the task with its error, and that with its words."""
    error = context.get("exception")
    trace = trace_of(error) if isinstance(error, BaseException) else "without an error"
    log.error("%s: %s", context.get("message", "In the loop"), trace)
