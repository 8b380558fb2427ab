"""The log file of the window's process.

An exception's message may quote what people wrote, so only its type and traceback are logged.
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
    def format(self, record: logging.LogRecord) -> str:
        # The record caches another formatter's text, which contains the message.
        others, record.exc_text = record.exc_text, None
        try:
            return super().format(record)
        finally:
            record.exc_text = others

    def formatException(self, ei: ErrorTriple) -> str:
        return trace_of(ei[1]) if ei[1] is not None else ""


class QuietFile(RotatingFileHandler):
    """Readable by this user only; write errors are ignored."""

    def _open(self) -> TextIOWrapper:
        handle = open_or_create(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND)
        return os.fdopen(handle, "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """Python would print the error with its message."""


@contextlib.contextmanager
def kept_log(file: Path) -> Iterator[None]:
    handler = QuietFile(file, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(WordlessFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        # A full disk must not hide the error the app ends with.
        with contextlib.suppress(OSError):
            handler.close()


def log_uncaught(error: BaseException) -> None:
    """Prints its type only."""
    log.error("Uncaught error: %s", trace_of(error))
    print(f"Waymark met an error: {type(error).__name__}", file=sys.stderr, flush=True)


def report_from_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Replaces asyncio's handler, which would print the message."""
    error = context.get("exception")
    trace = trace_of(error) if isinstance(error, BaseException) else "without an error"
    log.error("%s: %s", context.get("message", "In the loop"), trace)
