"""A store's index: one SQLite file of blobs, owners and notes. A damaged one is replaced by an
empty one, and files that it doesn't name are deleted: they are a cache. SQLite's messages may quote
stored text, so only codes are read."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from core.client.sqlite_errors import ERRORS, code_of, is_damage
from core.storage.files import Files

log = logging.getLogger(__name__)

# Every owner is in the table and in an index, which are compared at the start: a flipped bit can't
# keep a chat's data under the name of another.
_SCHEMA = (
    """CREATE TABLE blobs (
        id INTEGER PRIMARY KEY,
        pool TEXT NOT NULL,
        name TEXT NOT NULL,
        lasting INTEGER NOT NULL,
        num_bytes INTEGER NOT NULL,
        used INTEGER NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX blobs_by_name ON blobs (pool, name)",
    "CREATE INDEX blobs_by_size ON blobs (pool, num_bytes)",
    """CREATE TABLE needs (
        blob INTEGER NOT NULL REFERENCES blobs ON DELETE CASCADE,
        needed INTEGER NOT NULL REFERENCES blobs
    ) STRICT""",
    "CREATE UNIQUE INDEX needs_by_blob ON needs (blob, needed)",
    "CREATE INDEX needs_by_needed ON needs (needed)",
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
INDEX = "index.db"
FIND_NOTE = "SELECT value FROM notes WHERE kind = ? AND key = ?"
# Another process locks the file only briefly (`core.client.lock`).
_PATIENCE_S = 1.0
# Other codes that SQLite raises for a damaged header or definition.
_DAMAGED_HEADER = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_ERROR)
_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}


class DamagedIndexError(OSError):
    """The file is no index of this version."""


def stored_note(folder: Path, kind: str, key: str) -> str | None:
    """A note of a store that another process may use; nothing is changed."""
    address = f"{(folder / INDEX).absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True, timeout=1)) as index:
        found = index.execute(FIND_NOTE, (kind, key)).fetchone()
        return str(found[0]) if found else None
    return None


class Index:
    """SQLite's errors are raised as OSError."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path, self._files = path, files
        try:
            self._db = self._open()
        except DamagedIndexError:
            log.warning("The index in %s can't be used: what it names is deleted.", path.parent)
            for ending in ("", "-wal", "-shm"):
                files.delete(path.with_name(path.name + ending))
            self._db = self._open()

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with _as_disk_errors():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def change(self, sync: bool = False) -> Iterator[None]:
        with _as_disk_errors():
            self._db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._files.commit(self._db)
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def leave_no_trace(self) -> None:
        """Make all changes survive a power cut, and zero deleted data."""
        with _as_disk_errors():
            if not self._files.checkpoint(self._db):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def close(self) -> None:
        self._db.close()

    def _open(self) -> sqlite3.Connection:
        # SQLite gives the files that it adds the rights of this one.
        self._files.make_file(self._path)
        try:
            return self._connected("NORMAL")
        except OSError:
            # A full disk may have no room for the file of shared memory; this mode needs none.
            return self._connected("EXCLUSIVE")

    def _connected(self, locking: str) -> sqlite3.Connection:
        # One thread uses a store, but another may finalise it.
        database = sqlite3.connect(
            self._path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        try:
            with _as_disk_errors():
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
def _as_disk_errors() -> Iterator[None]:
    try:
        yield
    except ERRORS as error:
        code = code_of(error)
        if is_damage(error) or code in _DAMAGED_HEADER:
            raise DamagedIndexError(errno.EIO, "its index is damaged") from None
        known = _ERRORS.get(code, errno.EIO)
        raise OSError(known, os.strerror(known)) from None
