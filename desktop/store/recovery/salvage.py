"""Saves what can be read of a damaged file into a new one, and counts what could not.

The damaged file is only read. Rows of earlier formats are taken for rows of the newest one whose
last columns are missing, as SQLite does itself where a column was added.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from desktop.store import fields
from desktop.store.chats import new_key
from desktop.store.recovery.mend import UNKNOWN, mend
from desktop.store.recovery.pages import Pages, Value
from desktop.store.recovery.survey import Column, Shape, shapes_in, survey
from desktop.store.schema import MIGRATIONS, script

# Ids go through Qt's signals, which hold 32 bits. Nobody has so many messages.
IDS = range(1, 2**31)
# Columns that name a row of another table.
REFERENCES = frozenset(("chat", "parent", "message", "draft"))

Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What is in the new file, and what is known to be missing."""

    chats: int
    messages: int
    nameless: int
    lost_messages: int
    lost_rows: int
    lost_pages: int

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not (self.nameless or self.lost_messages or self.lost_rows or self.lost_pages)

    def words(self) -> str:
        """The numbers in a few sentences."""
        if not self.chats:
            return "No chat could be read."
        messages = _count(self.messages, "{} message", "{} messages")
        said = [
            _count(self.chats, f"{{}} chat with {messages} was", f"{{}} chats with {messages} were")
            + " saved into a new file."
        ]
        said += [
            _count(count, one, more)
            for count, one, more in (
                (
                    self.lost_messages,
                    "{} message could not be read and is marked in its chat.",
                    "{} messages could not be read and are marked in their chats.",
                ),
                (self.nameless, "{} chat has lost its name.", "{} chats have lost their names."),
                (
                    self.lost_rows,
                    "{} other entry could not be read.",
                    "{} other entries could not be read.",
                ),
                (
                    self.lost_pages,
                    "{} page of the file could not be read.",
                    "{} pages of the file could not be read.",
                ),
            )
            if count
        ]
        return " ".join([*said, "Nothing is known to be missing."] if self.complete else said)


def salvage(path: Path, new: Path) -> Salvaged:
    """Write what can be read of `path` and its log into the file `new`, which must not exist.

    Raises sqlite3.Error or OSError when `new` can't be written.
    """
    with closing(Pages(path)) as pages, closing(sqlite3.connect(new)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript(f"{script(MIGRATIONS)}; PRAGMA user_version = {len(MIGRATIONS)};")
        found = survey(pages, shapes_in(connection))
        lost = _copy(pages, found.tables, connection)
        mended = mend(connection)
        salvaged = Salvaged(
            chats=_total(connection, "chats"),
            messages=_total(connection, "messages") - mended.lost_messages,
            nameless=mended.nameless,
            lost_messages=mended.lost_messages,
            lost_rows=lost + mended.lost_rows,
            lost_pages=found.lost_pages,
        )
        if not salvaged.complete:
            # Keys of deleted chats may be among what is lost. What the engine keeps can be read
            # again; what was deleted must not stay.
            connection.execute("INSERT INTO forgets (key) VALUES (NULL)")
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")
    return salvaged


def _copy(pages: Pages, tables: dict[int, Shape], connection: sqlite3.Connection) -> int:
    """Copy all rows; returns how many could not be."""
    lost = 0
    keys: set[Value] = {""}
    for number, shape in tables.items():
        for cell in pages.cells(number):
            if cell is None:
                lost += 1
                continue
            row = _row(shape, cell.rowid, pages.values(cell))
            if shape.table == "chats":
                _make_plausible(row, keys)
            lost += not _insert(connection, shape.table, row)
    return lost


def _row(shape: Shape, rowid: int, values: list[Value]) -> Row:
    """The columns of a row, each with a value that it may have."""
    row: Row = {}
    for place, column in enumerate(shape.columns):
        if place == shape.key:
            row[column.name] = rowid if rowid in IDS else None
        elif place < len(values):
            row[column.name] = _fitted(column, values[place])
        elif not column.has_default:
            row[column.name] = _fitted(column, None)
    return row


def _fitted(column: Column, value: Value) -> Value:
    """The value, or what stands for one that was damaged."""
    if value is None and not column.required:
        return None
    match column.type:
        case "INTEGER" if column.name in REFERENCES:
            return value if isinstance(value, int) and value in IDS else UNKNOWN
        case "INTEGER":
            return value if isinstance(value, int) else 0 if column.required else None
        case "REAL":
            return fields.moment(value)
        case "TEXT":
            known = column.required or isinstance(value, (str, bytes))
            return fields.text(value) if known else None
        case _:
            return value if isinstance(value, bytes) else b"" if column.required else None


def _make_plausible(chat: Row, keys: set[Value]) -> None:
    """A key that no other chat has, and no deletion before the chat was there."""
    if chat.get("key", "") in keys:
        chat["key"] = new_key()
    keys.add(chat["key"])
    created, deleted = chat["created"], chat["deleted"]
    if isinstance(created, float) and isinstance(deleted, float) and deleted < created:
        chat["deleted"] = None


def _insert(connection: sqlite3.Connection, table: str, row: Row) -> bool:
    """Put a row into its table; says whether it is there now."""
    if not fields.is_digest(row.get("digest", "0" * 64)):
        return False
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
    if connection.execute(insert, tuple(row.values())).rowcount:
        return True
    same = " AND ".join(f"{name} IS ?" for name in row)
    there = f"SELECT 1 FROM {table} WHERE {same}"
    if connection.execute(there, tuple(row.values())).fetchone():
        return True
    if table != "messages":
        return False
    # Two messages of one id: an older state of it, or an id that was damaged.
    grown = "UPDATE messages SET text = ? WHERE id = ? AND chat = ? AND parent IS ?"
    if connection.execute(
        f"{grown} AND length(text) < length(?)",
        (row["text"], row["id"], row["chat"], row["parent"], row["text"]),
    ).rowcount:
        return True
    return bool(connection.execute(insert, tuple({**row, "id": None}.values())).rowcount)


def _total(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _count(number: int, one: str, more: str) -> str:
    return (one if number == 1 else more).format(f"{number:,}")
