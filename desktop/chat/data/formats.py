"""Formats that people write for replies; slow work on replies in threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Literal, TypeVar

from pydantic import ValidationError
from PySide6.QtCore import QObject, Signal

from core.api.reply_format import LONGEST_CHOICE, LONGEST_TEXT, MOST_CHOICES, ReplyFormat
from desktop.chat.data.reading import Reading, pretty, read
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.store.tables.fields import storable

T = TypeVar("T")
Check = Callable[[], None]
# The formats that people write as a text.
Kind = Literal["json_schema", "choice", "regex", "lark"]
# A reply that comes back into view is read again, unless it is one of the last few.
MOST_KEPT = 8


def format_of(kind: Kind, text: str) -> ReplyFormat | None:
    """None if it is too long; choices are one a line."""
    text = storable(text)
    lines = (line.strip() for line in text.splitlines()) if kind == "choice" else ()
    with contextlib.suppress(ValidationError):
        if kind == "choice":
            return ReplyFormat(kind=kind, choices=tuple(dict.fromkeys(filter(None, lines))))
        # A line break at the end of an expression was not meant to be part of it.
        return ReplyFormat(kind=kind, text=text.strip("\r\n") if kind == "regex" else text)
    return None


def text_of(reply_format: ReplyFormat) -> str:
    """The inverse of `format_of`."""
    return "\n".join(reply_format.choices) or reply_format.text


def too_long(kind: Kind) -> str:
    if kind == "choice":
        said = tr("Write at most {count} choices, each of at most {length} characters.")
        return said.format(count=format_count(MOST_CHOICES), length=format_count(LONGEST_CHOICE))
    return tr("It is longer than {count} characters.").format(count=format_count(LONGEST_TEXT))


class Formats(QObject):
    """`checked(text, refusal)`: why a text can't be used as a format, or ''."""

    # Texts are sent as objects: as Qt strings they would be copied, and lone surrogates lost.
    checked = Signal(object, str)
    was_read = Signal(int, object, object)
    indented = Signal(int, object)

    def __init__(self, tasks: Tasks) -> None:
        super().__init__()
        self._tasks = tasks
        # One after another: the threads are shared with other slow work.
        self._turn = asyncio.Lock()
        self._wanted: tuple[Kind, str] | None = None
        self._kept: dict[tuple[int, str], Reading] = {}

    def check(self, kind: Kind, text: str) -> None:
        """Only the last text is answered."""
        self._wanted = kind, text
        self._tasks.spawn(self._check(kind, text), tr("Checking a format"))

    def read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        self._tasks.spawn(self._read(message, text, reply_format), tr("Reading a reply"))

    def indent(self, message: int, text: str) -> None:
        self._tasks.spawn(self._indent(message, text), tr("Copying a reply"))

    async def _check(self, kind: Kind, text: str) -> None:
        async with self._turn:
            if (kind, text) != self._wanted:
                return
            form = format_of(kind, text)
            if form is None:
                said = too_long(kind)
            else:
                said = await _in_thread(lambda check: refusal(form, check))
        if (kind, text) == self._wanted:
            self.checked.emit(text, said)

    async def _read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        async with self._turn:
            found = self._kept.pop((message, text), None)
            if found is None:
                found = await _in_thread(lambda check: read(reply_format, text, check))
        self._kept[message, text] = found
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self.was_read.emit(message, text, found)

    async def _indent(self, message: int, text: str) -> None:
        self.indented.emit(message, await _in_thread(lambda _: pretty(text)))


def refusal(reply_format: ReplyFormat, check: Check) -> str:
    from core.formats.check import refusal as found

    return found(reply_format, check)


class _GivenUpError(Exception):
    pass


async def _in_thread(work: Callable[[Check], T]) -> T:
    """`check` raises when the task is cancelled, because the loop ends after the thread."""
    given_up = threading.Event()

    def check() -> None:
        if given_up.is_set():
            raise _GivenUpError

    try:
        return await asyncio.get_running_loop().run_in_executor(None, work, check)
    finally:
        given_up.set()
