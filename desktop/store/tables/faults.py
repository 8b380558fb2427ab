"""Errors of the file of chats, in words.

SQLite's own messages may quote what people wrote, so only its codes are read.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator

from core.api.errors import WaymarkError
from core.client.sqlite_errors import ERRORS, Error, code_of, is_damage

log = logging.getLogger(__name__)

WORDS = {
    sqlite3.SQLITE_FULL: "The disk is full.",
    sqlite3.SQLITE_IOERR: "The disk can't be read or written.",
    sqlite3.SQLITE_READONLY: "The file may not be written.",
    sqlite3.SQLITE_PERM: "The system doesn't allow it.",
    sqlite3.SQLITE_CANTOPEN: "The file can't be opened.",
    sqlite3.SQLITE_BUSY: "Another program is using the file.",
    sqlite3.SQLITE_LOCKED: "Another program is using the file.",
}
# SQLITE_CONSTRAINT_DATATYPE: a strict table already holds a value of another type. We write none.
WRONG_TYPE = 3091
DAMAGED_WORDS = (
    "A part of the file of chats is damaged. Close Waymark and start it again: then it saves what "
    "can be read into a new file."
)


class StoreError(WaymarkError):
    """The disk or SQLite refused. With `blames_file`, a new file in its place would work."""

    title = "The chats can't be stored"

    def __init__(self, message: str, blames_file: bool = False) -> None:
        super().__init__(message)
        self.blames_file = blames_file


class NewerDatabaseError(StoreError):
    title = "These chats belong to a newer Waymark"


class ForeignDatabaseError(StoreError):
    title = "This is no file of Waymark's chats"


class MigrationError(StoreError):
    """A migration failed, which is a defect of Waymark."""

    title = "The chats could not be brought to this version's format"


class SalvageError(StoreError):
    """The file is damaged, and saving what can be read of it failed too."""

    title = "The damaged chats could not be saved"


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """Raise errors of SQLite as StoreError."""
    try:
        yield
    except ERRORS as error:
        raise refused(error) from None


def refused(error: Error, blames_file: bool = False) -> StoreError:
    log.warning("SQLite refused: %s", name_of(error))
    if is_damage(error) or getattr(error, "sqlite_errorcode", 0) == WRONG_TYPE:
        return StoreError(DAMAGED_WORDS, blames_file)
    words = WORDS.get(code_of(error), f"The database refused it ({name_of(error)}).")
    return StoreError(words, blames_file)


def name_of(error: Error) -> str:
    """SQLite's name of the error, or its code if Python doesn't know the name."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return str(name) if name != "unknown" else f"SQLite's code {code_of(error)}"
