"""Folders of chats, and what their new chats begin with."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from desktop.store.tables import fields
from desktop.store.tables.records import Begin, Folder

_COLUMNS = "id, name, folded, preset, system, format, settings"


class DeletedFolder(NamedTuple):
    folder: Folder
    chats: tuple[int, ...]


def listed(connection: sqlite3.Connection) -> list[Folder]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM folders").fetchall()
    return sorted(map(_read, rows), key=lambda each: (each.name.casefold(), each.id))


def read(connection: sqlite3.Connection, number: object) -> Folder | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM folders WHERE id = ?", (number,)).fetchone()
    return _read(row) if row is not None else None


def create(
    connection: sqlite3.Connection, name: str, preset: str = "", begin: Begin | None = None
) -> int:
    """Returns its id."""
    name = fields.storable(name)
    cursor = connection.execute("INSERT INTO folders (name) VALUES (?)", (name,))
    assert cursor.lastrowid is not None
    begin_with(connection, cursor.lastrowid, preset, begin)
    return cursor.lastrowid


def rename(connection: sqlite3.Connection, folder: int, name: str) -> None:
    name = fields.storable(name)
    connection.execute("UPDATE folders SET name = ? WHERE id = ?", (name, folder))


def fold(connection: sqlite3.Connection, folder: int, folded: bool) -> None:
    connection.execute("UPDATE folders SET folded = ? WHERE id = ?", (folded, folder))


def begin_with(
    connection: sqlite3.Connection, folder: int, preset: str, begin: Begin | None
) -> None:
    """A copy of a preset for new chats, None for none."""
    values: tuple[str | None, ...] = (None, "", None, None)
    if begin is not None:
        values = fields.storable(preset), *fields.stored_begin(begin)
    connection.execute(
        "UPDATE folders SET preset = ?, system = ?, format = ?, settings = ? WHERE id = ?",
        (*values, folder),
    )


def move(connection: sqlite3.Connection, chats: Sequence[int], folder: int | None) -> None:
    """None, or a folder that is gone, isn't a folder."""
    connection.executemany(
        "UPDATE chats SET folder = (SELECT id FROM folders WHERE id = ?) WHERE id = ?",
        [(folder, chat) for chat in chats],
    )


def delete(connection: sqlite3.Connection, folder: int) -> DeletedFolder | None:
    """Keeps its chats; returns None if it was gone."""
    found = read(connection, folder)
    if found is None:
        return None
    rows = connection.execute("SELECT id FROM chats WHERE folder = ?", (folder,)).fetchall()
    connection.execute("DELETE FROM folders WHERE id = ?", (folder,))
    return DeletedFolder(found, tuple(number for (number,) in rows))


def restore(connection: sqlite3.Connection, gone: DeletedFolder) -> None:
    """Chats that are in another folder by now stay there."""
    each = gone.folder
    new = create(connection, each.name, each.preset, each.begin)
    fold(connection, new, each.folded)
    connection.executemany(
        "UPDATE chats SET folder = ? WHERE id = ? AND folder IS NULL",
        [(new, chat) for chat in gone.chats],
    )


def _read(row: Sequence[object]) -> Folder:
    number, name, folded, preset, system, reply_format, settings = row
    assert isinstance(number, int)
    own = preset is not None
    return Folder(
        number,
        fields.text(name),
        bool(folded),
        fields.text(preset) if own else "",
        fields.begin(system, reply_format, settings) if own else None,
    )
