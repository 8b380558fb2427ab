"""An SQLite file on its own thread: checked, migrated, backed up once a day."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from core.client.sqlite_errors import ERRORS
from core.client.traces import trace_of
from core.system.private_files import open_or_create, private_folder
from desktop.i18n import tr
from desktop.store import backups
from desktop.store.check import is_whole
from desktop.store.salvage import salvage
from desktop.store.tables import fields
from desktop.store.tables.errors import (
    MigrationError,
    SalvageError,
    StoreError,
    disk_trouble,
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
    """`notice` tells what happened at opening; `made` are the copies made then. Raises
    StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # An SQLite connection belongs to a thread; with one thread, calls also keep their order.
        self._executor = DaemonExecutor("store", 1)
        try:
            before = backups.copies(path)
            self._connection, self.notice = self._executor.submit(open_or_salvage, path).result()
            self.made = backups.copies(path) - before
        except BaseException:
            self._executor.shutdown()
            raise

    async def run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work(connection, ...)` as a transaction. Raises StoreError."""

        def transaction() -> T:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                return work(self._connection, *args, **kwargs)

        loop = asyncio.get_running_loop()
        with in_words():
            return await loop.run_in_executor(self._executor, transaction)

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Raises StoreError."""
        with in_words():
            return self._executor.submit(work, self._connection).result()

    async def leave_no_trace(self) -> None:
        """Remove deleted data from the log too. Raises StoreError."""
        loop = asyncio.get_running_loop()
        with in_words():
            await loop.run_in_executor(self._executor, truncate_log, self._connection)

    async def back_up_daily(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, back_up_daily, self._connection, self._path)

    def close(self) -> None:
        """Raises StoreError, or TimeoutError if the disk doesn't answer; the log makes that
        safe."""
        try:
            with in_words():
                self._executor.submit(self._connection.close).result(CLOSE_PATIENCE_S)
        finally:
            self._executor.shutdown()


def open_or_salvage(path: Path) -> tuple[sqlite3.Connection, str]:
    """Returns the connection and a message. Raises StoreError."""
    try:
        backups.clear_unfinished(path)
        notice = "" if is_whole(path) else _save(path)
        return open_database(path), notice
    except ERRORS as error:
        raise refused(error, blames_file=True) from None
    except OSError as error:
        words = tr("{path} can't be used: {reason}.").format(path=path, reason=error.strerror)
        raise StoreError(words, blames_file=True) from error


def open_database(path: Path) -> sqlite3.Connection:
    """Raises sqlite3.Error or OSError."""
    private_folder(path.parent, given=True)
    os.close(open_or_create(path, os.O_RDWR))
    connection = sqlite3.connect(path, isolation_level=None)
    # By default, Python refuses a row with invalid UTF-8.
    connection.text_factory = fields.decode
    try:
        _prepare(connection)
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def truncate_log(connection: sqlite3.Connection) -> None:
    """`secure_delete` zeroes what is deleted."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def back_up_daily(connection: sqlite3.Connection, path: Path) -> None:
    """Failures are only logged."""
    try:
        if backups.is_due(path):
            # A damaged log is then always newer than the backup.
            truncate_log(connection)
            backups.make(connection, path)
    except (*ERRORS, OSError) as error:
        log.warning("No backup of the chats was made: %s", trace_of(error))


def _save(path: Path) -> str:
    try:
        new = backups.begin(path)
        saved = salvage(path, new, backups.backups(path))
        kept = backups.exchange(path, new)
    except Exception as error:
        log.error("Saving a damaged file of chats failed: %s", trace_of(error))
        words = tr(
            "The file of chats is damaged, and its readable parts could not be written to a new "
            "file: {reason} {path} was not changed."
        )
        words = words.format(reason=_reason(error), path=path)
        raise SalvageError(words, blames_file=True) from None
    if not (kept.exists() or Path(f"{kept}{backups.LOG}").exists()):
        return tr("The file of chats was missing. {saved}").format(saved=saved)
    words = tr(
        "The file of chats was damaged. {saved} The damaged file is kept as {name} until a chat "
        "is deleted for good, since it may contain that chat."
    )
    return words.format(saved=saved, name=kept.name)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A message is on disk when its transaction has ended, also after a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= len(MIGRATIONS):
        return
    if version > 0:
        backups.make(connection, path)
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE; {script(MIGRATIONS[version:])};"
            f" PRAGMA user_version = {len(MIGRATIONS)}; COMMIT;"
        )
    except ERRORS as error:
        if disk_trouble(error):
            raise
        log.error("A migration failed: %s", trace_of(error))
        words = tr(
            "Converting the chats from format {old} to {new} failed ({error}). This is a "
            "defect of Waymark, not of your chats: they were not changed, and your previous "
            "version of Waymark can open them."
        )
        words = words.format(old=version, new=len(MIGRATIONS), error=name_of(error))
        raise MigrationError(words, blames_file=True) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ERRORS):
        return refused(error).message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    return f"({type(error).__name__})"
