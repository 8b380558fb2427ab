"""Checks that a file is whole, ours, and of a known format; changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from core.client.sqlite_errors import ERRORS, is_damage
from desktop.i18n import tr
from desktop.store.backups import LOG, backups
from desktop.store.tables import fields
from desktop.store.tables.errors import (
    ForeignDatabaseError,
    NewerDatabaseError,
    StoreError,
    refused,
)
from desktop.store.tables.schema import MIGRATIONS, script

Structure = dict[str, list[Any]]

# SQLite's own table of the last id of each table. Ids go through Qt's signals, which hold 32 bits.
SEQUENCE = "sqlite_sequence"
IDS = range(1, 2**31 - 1)


def is_whole(path: Path) -> bool:
    """Raises NewerDatabaseError, ForeignDatabaseError, StoreError, OSError."""
    if path.exists() and not path.is_file():
        raise StoreError(
            tr("{} is not a file. Nothing was changed.").format(path), blames_file=True
        )
    if is_empty(path):
        # SQLite would take the log for an old one, and delete it.
        log = Path(f"{path}{LOG}")
        return not (log.exists() and log.stat().st_size) and not backups(path)
    try:
        with closing(read_only(path)) as connection:
            return is_sound(connection, path)
    except ERRORS as error:
        if is_damage(error):
            return False
        raise refused(error, blames_file=True) from None


def is_empty(path: Path) -> bool:
    """SQLite takes one byte for nothing, too."""
    return not path.exists() or path.stat().st_size <= 1


def read_only(path: Path, immutable: bool = False) -> sqlite3.Connection:
    """Writes no log into the file when it closes; an immutable file has none.

    The journal of an interrupted first start has to be undone, which is a write.
    """
    mode = "rw" if Path(f"{path}-journal").exists() else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"
    connection = sqlite3.connect(uri, uri=True)
    connection.text_factory = fields.decode
    return connection


def is_sound(connection: sqlite3.Connection, path: Path) -> bool:
    """Raises as `is_whole` does, or an error of `ERRORS`."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        words = tr(
            "The chats are in format {}; this version can read formats up to {}. Nothing was "
            "changed. Please start the newer version of Waymark."
        )
        raise NewerDatabaseError(words.format(version, len(MIGRATIONS)), blames_file=True)
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        return False
    # SQLite checks neither the names of tables and columns nor its count of ids.
    found, expected = structure(connection), structure_of(version)
    ours = structure_of(len(MIGRATIONS)).keys() - {SEQUENCE}
    if found and not found.keys() & ours:
        words = tr("{} is a database of another program. Nothing was changed.").format(path)
        raise ForeignDatabaseError(words, blames_file=True)
    if version == 0:
        return not found
    return all(found.get(table) == columns for table, columns in expected.items()) and all(
        last == 0 or last in IDS for (last,) in connection.execute(f"SELECT seq FROM {SEQUENCE}")
    )


def structure_of(version: int) -> Structure:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script(MIGRATIONS[:version]))
        return structure(connection)


def structure(connection: sqlite3.Connection) -> Structure:
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%'"
    ).fetchall()
    return {
        name: [
            connection.execute(f"SELECT * FROM {pragma}(?)", (name,)).fetchall()
            for pragma in ("pragma_table_info", "pragma_foreign_key_list")
        ]
        for (name,) in names
    }
