"""A store's index: one SQLite file with sizes, what needs what, owners, and notes.

Knows how the file is opened, how it changes in transactions, and that a damaged one is begun again:
it is the index of a cache, and whatever it doesn't name is deleted. What the rows mean is
`core.storage.store`'s. SQLite's own messages may quote what is stored, so only its codes are read.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.client.sqlite_errors import ERRORS, Error, code_of, is_damage
from core.storage.files import Files

log = logging.getLogger(__name__)

# Every owner stands in the table and in an index, whose comparison at the start finds any flipped
# bit: nobody's chat may lie on under the name of another.
_SCHEMA = (
    """CREATE TABLE blobs (
        id INTEGER PRIMARY KEY,
        pool TEXT NOT NULL,
        name TEXT NOT NULL,
        needs INTEGER REFERENCES blobs,
        lasting INTEGER NOT NULL,
        num_bytes INTEGER NOT NULL,
        used INTEGER NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX blobs_by_name ON blobs (pool, name)",
    "CREATE INDEX blobs_by_need ON blobs (needs)",
    "CREATE INDEX blobs_by_size ON blobs (pool, num_bytes)",
    """CREATE TABLE owners (
        owner TEXT NOT NULL,
        blob INTEGER NOT NULL REFERENCES blobs ON DELETE CASCADE
    ) STRICT""",
    "CREATE UNIQUE INDEX owners_by_blob ON owners (blob, owner)",
    "CREATE INDEX owners_by_name ON owners (owner)",
    """CREATE TABLE notes (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        UNIQUE (kind, key)
    ) STRICT""",
)
# Another process has no business here for longer (`core.client.lock`).
_PATIENCE_S = 1.0
# What SQLite raises besides for a header, or a definition, of which nothing else is wrong.
_DAMAGED_HEADER = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_ERROR)
_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}


class DamagedIndexError(OSError):
    """The file is no index of ours, or not of this version."""


class Index:
    """The open file. Whatever SQLite refuses is an OSError."""

    def __init__(self, path: Path, files: Files) -> None:
        """Open the index; one that is missing, damaged or of another version is begun anew."""
        self._path, self._files = path, files
        try:
            self._db = self._open()
        except DamagedIndexError:
            log.warning("The index in %s can't be used: what it names is deleted.", path.parent)
            for ending in ("", "-wal", "-shm"):
                files.delete(path.with_name(path.name + ending))
            self._db = self._open()

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""
        try:
            return self._db.execute(statement, values).fetchall()
        except ERRORS as error:
            raise _as_disk_error(error) from None

    @contextmanager
    def change(self, sync: bool = False) -> Iterator[None]:
        """What is asked for inside is one transaction; with `sync` it survives a power cut."""
        with _in_words():
            self._db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._files.commit(self._db)
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def leave_no_trace(self) -> None:
        """Make all changes survive a power cut, and zero whatever they deleted."""
        with _in_words():
            if not self._files.checkpoint(self._db):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _open(self) -> sqlite3.Connection:
        # What SQLite puts beside it gets its rights.
        self._files.make_file(self._path)
        try:
            return self._connected("NORMAL")
        except OSError:
            # Without a file of shared memory, which a full disk has no room for.
            return self._connected("EXCLUSIVE")

    def _connected(self, locking: str) -> sqlite3.Connection:
        # One thread uses a store, but another may be the one that drops it.
        database = sqlite3.connect(
            self._path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        try:
            with _in_words():
                self._prepare(database, locking)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection, locking: str) -> None:
        for pragma in (
            f"locking_mode = {locking}",
            "journal_mode = WAL",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            database.execute(f"PRAGMA {pragma}").fetchall()
        database.execute("BEGIN IMMEDIATE")
        made = database.execute("SELECT sql FROM sqlite_schema WHERE sql NOT NULL").fetchall()
        if not made:
            for statement in _SCHEMA:
                database.execute(statement)
        elif made != [(statement,) for statement in _SCHEMA]:
            raise DamagedIndexError(errno.EIO, "its index is of another version")
        elif database.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
            raise DamagedIndexError(errno.EIO, "its index is damaged")
        self._files.commit(database)


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except ERRORS as error:
        raise _as_disk_error(error) from None


def _as_disk_error(error: Error) -> OSError:
    code = code_of(error)
    if is_damage(error) or code in _DAMAGED_HEADER:
        return DamagedIndexError(errno.EIO, "its index is damaged")
    known = _ERRORS.get(code, errno.EIO)
    return OSError(known, os.strerror(known))
