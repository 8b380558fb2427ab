"""Whether a file is whole, one of ours, and of a format that is known. Changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from core.client.sqlite_errors import ERRORS, is_damage
from desktop.store.recovery.write_ahead import read_log
from desktop.store.tables import fields
from desktop.store.tables.faults import (
    ForeignDatabaseError,
    NewerDatabaseError,
    StoreError,
    refused,
)
from desktop.store.tables.schema import MIGRATIONS, script

Structure = dict[str, list[Any]]

# SQLite's own table of the last id of each table. Ids go through Qt's signals, which hold 32 bits.
SEQUENCE = "sqlite_sequence"
LAST_IDS = range(2**31 - 1)


def is_whole(path: Path) -> bool:
    """False for a damaged file, in SQLite's own judgement.

    Raises NewerDatabaseError, ForeignDatabaseError, StoreError when it can't be looked at, OSError.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no file. Nothing was changed.", blames_file=True)
    log = read_log(Path(f"{path}-wal"))
    if not path.exists() or path.stat().st_size <= 1:
        # To SQLite a file of one byte is empty; it would take the log for an old one and delete it.
        return not log.pages
    # Read only, or closing the file would write a log into it that is to be kept as it is. Where
    # a journal was left by the very first start, SQLite has to undo that first.
    mode = "rw" if Path(f"{path}-journal").exists() else "ro"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)) as file:
            return _is_sound(file, path) and not log.damaged
    except ERRORS as error:
        if is_damage(error):
            return False
        raise refused(error, blames_file=True) from None


def _is_sound(connection: sqlite3.Connection, path: Path) -> bool:
    connection.text_factory = fields.decode
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise NewerDatabaseError(
            f"The chats were stored in format {version}; this Waymark knows formats up to "
            f"{len(MIGRATIONS)}. Nothing was changed. Please start the newer Waymark.",
            blames_file=True,
        )
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        return False
    # A damaged name of a table or a column is none of SQLite's business, nor what it counts ids by.
    structure, expected = _structure(connection), _structure_of(version)
    ours = _structure_of(len(MIGRATIONS)).keys() - {SEQUENCE}
    if structure and not structure.keys() & ours:
        raise ForeignDatabaseError(
            f"{path} is a database of another program. Nothing was changed.", blames_file=True
        )
    if version == 0:
        return not structure
    return all(structure.get(table) == columns for table, columns in expected.items()) and all(
        isinstance(last, int) and last in LAST_IDS
        for (last,) in connection.execute(f"SELECT seq FROM {SEQUENCE}")
    )


def _structure_of(version: int) -> Structure:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script(MIGRATIONS[:version]))
        return _structure(connection)


def _structure(connection: sqlite3.Connection) -> Structure:
    """The columns and references of all tables."""
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
