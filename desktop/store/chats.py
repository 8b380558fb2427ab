"""The list of chats: made with a first message, named after its words, deleted in two steps.

Functions of a connection, each run as one transaction by `Database.run`.
"""

from __future__ import annotations

import sqlite3
import time

from desktop.store.records import Chat

TITLE_LENGTH = 48
UNTITLED = "Picture chat"


def title_from(text: str) -> str:
    """The first words of a message, as many as a row of the list shows."""
    words = " ".join(text[: 4 * TITLE_LENGTH].split())
    if len(words) <= TITLE_LENGTH:
        return words or UNTITLED
    whole = words[: TITLE_LENGTH + 1].rsplit(" ", 1)[0]
    return f"{whole[:TITLE_LENGTH]}\N{HORIZONTAL ELLIPSIS}"


def create(connection: sqlite3.Connection, title: str) -> int:
    """A new chat; returns its id."""
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO chats (title, created, used) VALUES (?, ?, ?)", (title, now, now)
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def listed(connection: sqlite3.Connection) -> list[Chat]:
    """All chats that are not deleted, the one used last first."""
    rows = connection.execute(
        "SELECT id, title, created, used FROM chats WHERE deleted IS NULL"
        " ORDER BY used DESC, id DESC"
    )
    return [Chat(*row) for row in rows]


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Give a chat another title."""
    connection.execute("UPDATE chats SET title = ? WHERE id = ?", (title, chat))


def touch(connection: sqlite3.Connection, chat: int) -> None:
    """The chat was used just now: it moves to the top."""
    connection.execute("UPDATE chats SET used = ? WHERE id = ?", (time.time(), chat))


def delete(connection: sqlite3.Connection, chat: int) -> None:
    """Take a chat off the list; `restore` brings it back until `purge`."""
    connection.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Put a deleted chat back on the list."""
    connection.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat,))


def purge(connection: sqlite3.Connection) -> None:
    """Forget deleted chats for good, their messages with them."""
    connection.execute("DELETE FROM chats WHERE deleted IS NOT NULL")
