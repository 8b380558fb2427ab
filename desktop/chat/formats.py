"""The form of replies, where it takes time: whether a schema can be used, and what a reply holds.

All of it is done outside the window's thread; what is asked for here is told by a signal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from desktop.chat.data.pretty import pretty
from desktop.chat.data.reading import Reading, read
from desktop.engine.tasks import Tasks
from desktop.store.tables.messages import storable
from desktop.words.formats import TOO_LONG

T = TypeVar("T")
Check = Callable[[], None]
# Replies are read again when they come back into view; of so many that is not needed.
MOST_KEPT = 8


def schema_format(text: str) -> ReplyFormat | None:
    """The form of JSON that a schema allows; None where the schema is too long for one."""
    schema = storable(text)
    return ReplyFormat(kind="json_schema", text=schema) if len(schema) <= LONGEST_TEXT else None


class Formats(QObject):
    """Checks and reads one thing at a time.

    Signals:
        checked(str, str): this schema, and why it can't be used, '' if it can.
        was_read(int, str, Reading): the reply of this message with this text.
        indented(int, str): the JSON of the reply of this message, to be copied.
    """

    # Texts go as they are: as Qt's strings they would be copied, and half a surrogate pair lost.
    checked = Signal(object, str)
    was_read = Signal(int, object, object)
    indented = Signal(int, object)

    def __init__(self, tasks: Tasks) -> None:
        super().__init__()
        self._tasks = tasks
        # One after another: they share the threads with all else that takes time.
        self._turn = asyncio.Lock()
        self._wanted = ""
        self._kept: dict[tuple[int, str], Reading] = {}

    def check(self, schema: str) -> None:
        """Say whether a schema can be used; who asks again before that hears of the later one."""
        self._wanted = schema
        self._tasks.spawn(self._check(schema), "Checking a schema")

    def read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        """Read a finished reply."""
        self._tasks.spawn(self._read(message, text, reply_format), "Reading a reply")

    def indent(self, message: int, text: str) -> None:
        """Write out a reply that is JSON."""
        self._tasks.spawn(self._indent(message, text), "Copying a reply")

    async def _check(self, schema: str) -> None:
        async with self._turn:
            if schema != self._wanted:
                return
            form = schema_format(schema)
            said = TOO_LONG if form is None else await _apart(lambda check: refusal(form, check))
        if schema == self._wanted:
            self.checked.emit(schema, said)

    async def _read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        async with self._turn:
            found = self._kept.pop((message, text), None)
            if found is None:
                found = await _apart(lambda check: read(reply_format, text, check))
        self._kept[message, text] = found
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self.was_read.emit(message, text, found)

    async def _indent(self, message: int, text: str) -> None:
        self.indented.emit(message, await _apart(lambda _: pretty(text)))


def refusal(reply_format: ReplyFormat, check: Check) -> str:
    """Why it can't be used, '' if it can; the libraries for that are loaded where they are used."""
    from core.formats.check import refusal as found

    return found(reply_format, check)


class _GivenUpError(Exception):
    """Nobody waits for what a thread does."""


async def _apart(work: Callable[[Check], T]) -> T:
    """Run a function in a thread of its own.

    When the task is cancelled, as it is at closing, the function is told by its `check`: the loop
    can't end before the thread has.
    """
    given_up = threading.Event()

    def check() -> None:
        if given_up.is_set():
            raise _GivenUpError

    try:
        return await asyncio.get_running_loop().run_in_executor(None, work, check)
    finally:
        given_up.set()
