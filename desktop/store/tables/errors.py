"""Errors of the file of chats in words.

SQLite's messages may quote what people wrote, so only its codes are read.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator

from core.api.errors import WaymarkError
from core.client.sqlite_errors import ERRORS, Error, code_of, is_damage
from desktop.i18n import tr

log = logging.getLogger(__name__)

# SQLITE_CONSTRAINT_DATATYPE: a strict table already holds a value of another type. We write none.
WRONG_TYPE = 3091


class StoreError(WaymarkError, title="The chats can't be stored"):
    """With `blames_file`, a new file in its place would work."""

    def __init__(self, message: str, blames_file: bool = False) -> None:
        super().__init__(message)
        self.blames_file = blames_file


# fmt: off
class NewerDatabaseError(StoreError, title="These chats belong to a newer Waymark"): ...
class ForeignDatabaseError(StoreError, title="This file doesn't hold Waymark's chats"): ...
class MigrationError(StoreError, title="The chats could not be converted for this version"): ...
class SalvageError(StoreError, title="The damaged chats could not be recovered"): ...
# fmt: on


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    try:
        yield
    except ERRORS as error:
        raise refused(error) from None


def refused(error: Error, blames_file: bool = False) -> StoreError:
    log.warning("SQLite refused: %s", name_of(error))
    if is_damage(error) or getattr(error, "sqlite_errorcode", 0) == WRONG_TYPE:
        words = tr(
            "A part of the file of chats is damaged. Restart Waymark; it will copy everything it "
            "can read to a new file."
        )
    else:
        reported = tr("The database reported an error ({}).").format(name_of(error))
        words = disk_trouble(error) or reported
    return StoreError(words, blames_file)


def disk_trouble(error: Error) -> str:
    busy = tr("Another program is using the file.")
    words = {
        sqlite3.SQLITE_FULL: tr("The disk is full."),
        sqlite3.SQLITE_IOERR: tr("The disk can't be read or written."),
        sqlite3.SQLITE_READONLY: tr("The file is read-only."),
        sqlite3.SQLITE_PERM: tr("The system denies access to the file."),
        sqlite3.SQLITE_CANTOPEN: tr("The file can't be opened."),
        sqlite3.SQLITE_BUSY: busy,
        sqlite3.SQLITE_LOCKED: busy,
    }
    return words.get(code_of(error), "")


def name_of(error: Error) -> str:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return str(name) if name != "unknown" else f"SQLite's code {code_of(error)}"
