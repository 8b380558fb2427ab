"""One SQLite file on one thread of its own: opened, checked, migrated, and saved if it is damaged.

Knows pragmas and versions. What the tables mean is in `chats`, `messages` and `pictures`, whose
functions take the connection that `Database.run` hands them; what becomes of damage is `recovery`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from core.client.sqlite_errors import ERRORS, code_of
from core.client.traces import trace_of
from core.system.private_files import open_or_create, private_folder
from desktop.store.recovery import copies
from desktop.store.recovery.check import is_whole
from desktop.store.recovery.salvage import salvage
from desktop.store.tables import fields
from desktop.store.tables.faults import (
    WORDS,
    MigrationError,
    SalvageError,
    StoreError,
    in_words,
    name_of,
    refused,
)
from desktop.store.tables.schema import MIGRATIONS, script
from desktop.threads import DaemonExecutor

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

CLOSE_PATIENCE_S = 10.0


class Database:
    """The chats' file.

    `notice` says in words what happened at opening, '' when nothing did; `made` are the copies of
    the file that were made then. Raises StoreError when there can be no file at that place.
    """

    def __init__(self, path: Path) -> None:
        # SQLite connections belong to a thread; with one thread, calls also keep their order.
        self._executor = DaemonExecutor("store", 1)
        try:
            before = copies.copies(path)
            self._connection, self.notice = self._executor.submit(open_or_salvage, path).result()
            self.made = copies.copies(path) - before
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
        with in_words():
            return await loop.run_in_executor(self._executor, transaction)

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out `work(connection)` and wait for it, at the start. Raises StoreError."""
        with in_words():
            return self._executor.submit(work, self._connection).result()

    async def leave_no_trace(self) -> None:
        """Bring what was deleted out of the log beside the file too. Raises StoreError."""
        loop = asyncio.get_running_loop()
        with in_words():
            await loop.run_in_executor(self._executor, truncate_log, self._connection)

    def close(self) -> None:
        """Finish what was asked, then close the file. Raises StoreError.

        Raises TimeoutError when the disk does not answer; SQLite's own log makes that safe.
        """
        try:
            with in_words():
                self._executor.submit(self._connection.close).result(CLOSE_PATIENCE_S)
        finally:
            self._executor.shutdown()


def open_or_salvage(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open the file; what can be read of a damaged one goes into a new one, and the old one stays.

    Returns the connection, and words about what happened. Raises StoreError.
    """
    try:
        copies.clear_unfinished(path)
        notice = "" if is_whole(path) else _save(path)
        return open_database(path), notice
    except ERRORS as error:
        raise refused(error, blames_file=True) from None
    except OSError as error:
        raise StoreError(f"{path} can't be used: {error.strerror}.", blames_file=True) from error


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to a migrated file, made if it is not there. Raises sqlite3.Error or OSError."""
    private_folder(path.parent, given=True)
    os.close(open_or_create(path, os.O_RDWR))
    connection = sqlite3.connect(path, isolation_level=None)
    # A damaged text costs the characters it hit, where Python would refuse the whole row.
    connection.text_factory = fields.decode
    try:
        _prepare(connection)
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def truncate_log(connection: sqlite3.Connection) -> None:
    """Write all of the log into the file, whose deleted places are zeroed, and empty the log."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _save(path: Path) -> str:
    """Put a new file with what can be read in the place of a damaged one; says what was read."""
    try:
        new = copies.begin(path)
        salvaged = salvage(path, new)
        kept = copies.exchange(path, new)
    except Exception as error:
        log.error("Saving a damaged file of chats failed: %s", trace_of(error))
        raise SalvageError(
            "The file of chats is damaged, and what can be read could not be written into a new "
            f"file. {_reason(error)} {path} is as it was.",
            blames_file=True,
        ) from None
    return (
        f"The file of chats was damaged. {salvaged.words()} The damaged file is kept as "
        f"{kept.name} until a chat is deleted for good, since it may hold that chat too."
    )


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A message is on disk when its transaction has ended, also after a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the newest format in one transaction, after a copy was made of it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= len(MIGRATIONS):
        return
    if version > 0:
        copies.make(connection, path)
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE; {script(MIGRATIONS[version:])};"
            f" PRAGMA user_version = {len(MIGRATIONS)}; COMMIT;"
        )
    except ERRORS as error:
        if code_of(error) in WORDS:
            raise
        log.error("A migration failed: %s", trace_of(error))
        raise MigrationError(
            f"The step from format {version} to format {len(MIGRATIONS)} failed "
            f"({name_of(error)}). This is a defect of Waymark, not of your chats: they are as they "
            "were, and the Waymark you had before can open them.",
            blames_file=True,
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ERRORS):
        return refused(error).message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    return f"({type(error).__name__})"
