"""Saves what can be read of a damaged file into a new one, and counts what could not.

The damaged file is only read. Rows of earlier formats are taken for rows of the newest one whose
last columns are missing, as SQLite does itself where a column was added.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from desktop.store.recovery.mend import UNKNOWN, mend
from desktop.store.recovery.pages import Pages, Value
from desktop.store.recovery.survey import Column, Shape, shapes_in, survey
from desktop.store.tables import fields
from desktop.store.tables.chats import new_key
from desktop.store.tables.schema import MIGRATIONS, script

# Ids go through Qt's signals, which hold 32 bits. Nobody has so many messages.
IDS = range(1, 2**31)
# Columns that name a row of another table.
REFERENCES = frozenset(("chat", "parent", "message", "draft"))

Row = dict[str, Value]
# A row, its table, and the column that holds its id.
Entry = tuple[str, str, Row]


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
                    "{} entry of the file could not be read.",
                    "{} entries of the file could not be read.",
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
    """Write what can be read of `path` and its log into the empty file `new`.

    Raises sqlite3.Error or OSError when `new` can't be written.
    """
    with closing(Pages(path)) as pages, closing(sqlite3.connect(new)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript(f"{script(MIGRATIONS)}; PRAGMA user_version = {len(MIGRATIONS)};")
        shapes = shapes_in(connection)
        found = survey(pages, shapes)
        homeless: list[Entry] = []
        lost = _copy(pages, found.tables, connection, homeless)
        if pages.log.damaged:
            # A row may have been moved by the log from a page that is there to one that is lost.
            older: list[Entry] = []
            with closing(Pages(path, with_log=False)) as before:
                # What a reply gained is added to it when it is read, so once is enough.
                tables = survey(before, shapes).tables.items()
                lasting = {at: shape for at, shape in tables if shape.table != "reply_parts"}
                _copy(before, lasting, connection, older)
            homeless += [entry for entry in older if entry[0] == "messages"]
        # Not before all others: an id that seems free may be that of a row to come.
        lost += _house(connection, homeless)
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


def _copy(
    pages: Pages, tables: dict[int, Shape], connection: sqlite3.Connection, homeless: list[Entry]
) -> int:
    """Copy all rows but those that are `homeless`; returns how many could not be read."""
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
            key = shape.columns[shape.key].name if shape.key >= 0 else ""
            if not _insert(connection, shape.table, row, key):
                homeless.append((shape.table, key, row))
    return lost


def _house(connection: sqlite3.Connection, homeless: list[Entry]) -> int:
    """Give messages whose id is not theirs another one; returns how many other rows are lost."""
    lost = 0
    for table, key, row in homeless:
        if table == "messages":
            _insert(connection, table, {**row, key: None}, "")
        else:
            lost += 1
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


def _insert(connection: sqlite3.Connection, table: str, row: Row, key: str) -> bool:
    """Put a row into its table; False if it has no id, or another row's."""
    if not fields.is_digest(row.get("digest", "0" * 64)) or (key and row[key] is None):
        return False
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    if connection.execute(
        f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", tuple(row.values())
    ).rowcount:
        return True
    same = " AND ".join(f"{name} IS ?" for name in row)
    there = f"SELECT 1 FROM {table} WHERE {same}"
    if connection.execute(there, tuple(row.values())).fetchone():
        return True
    return table == "messages" and _is_state_of_known(connection, row)


def _is_state_of_known(connection: sqlite3.Connection, row: Row) -> bool:
    """Whether a message is there already, in a state before or after; the longer one stays."""
    found = connection.execute(
        "SELECT text FROM messages WHERE id = ? AND chat = ? AND parent IS ?",
        (row["id"], row["chat"], row["parent"]),
    ).fetchone()
    if found is None:
        return False
    # Of a text that was cut off the beginning counts.
    known, other = (
        str(text).removesuffix(fields.DAMAGED_REST).rstrip() for text in (*found, row["text"])
    )
    if other.startswith(known):
        connection.execute("UPDATE messages SET text = ? WHERE id = ?", (row["text"], row["id"]))
    return other.startswith(known) or known.startswith(other)


def _total(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _count(number: int, one: str, more: str) -> str:
    return (one if number == 1 else more).format(f"{number:,}")
