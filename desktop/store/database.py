"""One SQLite file on one thread of its own: opened, migrated, and set aside if it is damaged.

Knows pragmas and versions. What the tables mean is in `chats`, `messages` and `pictures`, whose
functions take the connection that `Database.run` hands them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from core.api.errors import WaymarkError
from desktop.store.schema import MIGRATIONS

P = ParamSpec("P")
T = TypeVar("T")


class NewerDatabaseError(WaymarkError):
    """The file was written by a newer Waymark; reading it with this one could harm it."""

    title = "These chats belong to a newer Waymark"


class StoreError(WaymarkError):
    """The disk or SQLite refused."""

    title = "The chats can't be stored"


class Database:
    """The chats' file. `notice` says in words what happened at opening, '' when nothing did.

    Raises NewerDatabaseError, or StoreError when there can be no file at that place.
    """

    def __init__(self, path: Path) -> None:
        # SQLite connections belong to a thread; with one thread, calls also keep their order.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        try:
            opened = self._executor.submit(open_or_set_aside, path)
            self._connection, self.notice = opened.result()
        except BaseException:
            self._executor.shutdown()
            raise

    async def run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Carry out `work(connection, ...)` as one transaction. Raises StoreError."""

        def transaction() -> T:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                return work(self._connection, *args, **kwargs)

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, transaction)
        except sqlite3.Error as error:
            raise StoreError(f"The database says: {error}.") from error

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out `work(connection)` and wait for it, at the start. Raises StoreError."""
        try:
            return self._executor.submit(work, self._connection).result()
        except sqlite3.Error as error:
            raise StoreError(f"The database says: {error}.") from error

    async def leave_no_trace(self) -> None:
        """Bring what was deleted out of the log beside the file too. Raises StoreError."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, truncate_log, self._connection)
        except sqlite3.Error as error:
            raise StoreError(f"The database says: {error}.") from error

    def close(self) -> None:
        """Finish what was asked, then close the file."""
        self._executor.submit(self._connection.close).result()
        self._executor.shutdown()


def open_or_set_aside(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open the file; a damaged one is renamed, never deleted, and a new one takes its place."""
    try:
        return open_database(path), ""
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path} can't be opened: {error}.") from error
    except sqlite3.DatabaseError as error:
        kept = set_aside(path)
        notice = f"The chats could not be read ({error}). The file is kept as {kept.name}."
        return open_database(path), notice


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to a checked, migrated file. Raises sqlite3.DatabaseError if it is damaged."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def truncate_log(connection: sqlite3.Connection) -> None:
    """Write all of the log into the file, whose deleted places are zeroed, and empty the log."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def set_aside(path: Path) -> Path:
    """Rename a database file and its companions; returns the new name of the file itself."""
    kept = path.with_name(f"{path.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")
    for suffix in ("", "-wal", "-shm"):
        companion = Path(f"{path}{suffix}")
        if companion.exists():
            companion.replace(f"{kept}{suffix}")
    return kept


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A message is on disk when its transaction has ended, also after a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(str(verdict))
    _migrate(connection)


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise NewerDatabaseError(
            f"The chats were stored in format {version}; this Waymark knows formats up to "
            f"{len(MIGRATIONS)}. Nothing was changed. Please start the newer Waymark."
        )
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")
