"""The list of chats: made with a first message, named after its words, deleted in two steps.

A deleted chat is in the trash until it is purged. Functions of a connection, each run as one
transaction by `Database.run`.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from typing import NamedTuple

from core.api.reply_format import ReplyFormat
from desktop.store.tables import fields
from desktop.store.tables.records import Chat

TITLE_LENGTH = 48
UNTITLED = "Picture chat"
# How long the trash keeps a deleted chat.
TRASH_DAYS = 30
TRASH_S = TRASH_DAYS * 86_400.0


class ForgetRow(NamedTuple):
    """Something to forget; without a key, everything."""

    number: int
    key: str | None


def new_key() -> str:
    """A name for a chat that says nothing and never comes twice."""
    return uuid.uuid4().hex


def title_from(text: str) -> str:
    """The first words of a message, as many as a row of the list shows."""
    words = " ".join(text[: 4 * TITLE_LENGTH].split())
    if len(words) <= TITLE_LENGTH:
        return words or UNTITLED
    whole = words[: TITLE_LENGTH + 1].rsplit(" ", 1)[0]
    return f"{whole[:TITLE_LENGTH]}\N{HORIZONTAL ELLIPSIS}"


def create(
    connection: sqlite3.Connection,
    title: str,
    key: str = "",
    system: str = "",
    reply_format: ReplyFormat | None = None,
) -> int:
    """A new chat; returns its id. Without a key that nobody has used it gets one of its own."""
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO chats (title, created, used, key, system, format) VALUES (?, ?, ?, ?, ?, ?)",
        (title, now, now, key or new_key(), system, fields.stored_model(reply_format)),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def listed(connection: sqlite3.Connection) -> list[Chat]:
    """All chats that are not deleted, the one used last first."""
    return _read(connection, "deleted IS NULL ORDER BY used DESC, id DESC")


def trashed(connection: sqlite3.Connection) -> list[Chat]:
    """All chats in the trash, the one deleted last first."""
    return _read(connection, "deleted IS NOT NULL ORDER BY deleted DESC, id DESC")


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Give a chat another title."""
    connection.execute("UPDATE chats SET title = ? WHERE id = ?", (title, chat))


def pin(connection: sqlite3.Connection, chat: int, pinned: bool) -> None:
    """Have a chat stand on top of the list, or no longer."""
    connection.execute("UPDATE chats SET pinned = ? WHERE id = ?", (pinned, chat))


def touch(connection: sqlite3.Connection, chat: int) -> None:
    """The chat was used just now: it moves to the top."""
    connection.execute("UPDATE chats SET used = ? WHERE id = ?", (time.time(), chat))


def instruct(connection: sqlite3.Connection, chat: int, system: str) -> None:
    """What stands in the prompt before everything else from now on; '' for nothing."""
    connection.execute("UPDATE chats SET system = ? WHERE id = ?", (system, chat))


def ask_for(connection: sqlite3.Connection, chat: int, reply_format: ReplyFormat | None) -> None:
    """The form of the replies from now on; None where it is free."""
    connection.execute(
        "UPDATE chats SET format = ? WHERE id = ?", (fields.stored_model(reply_format), chat)
    )


def leave_out(connection: sqlite3.Connection, chat: int, message: int | None) -> None:
    """No message up to this one is in the prompt any more; None puts all of them in."""
    connection.execute("UPDATE chats SET left_out = ? WHERE id = ?", (message, chat))


def delete(connection: sqlite3.Connection, chat: int) -> None:
    """Move a chat to the trash; `restore` brings it back until `purge`."""
    connection.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Put a deleted chat back on the list."""
    connection.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat,))


def purge(
    connection: sqlite3.Connection, chat: int | None = None, before: float | None = None
) -> set[int]:
    """Forget deleted chats for good, and have the engine forget them too; returns which.

    With `chat` this one only; with `before` only those deleted before that moment.
    """
    rows = connection.execute(
        "SELECT id FROM chats WHERE deleted IS NOT NULL AND id = ifnull(?1, id)"
        " AND (?2 IS NULL OR deleted < ?2)",
        (chat, before),
    )
    doomed = {number for (number,) in rows}
    for number in sorted(doomed):
        connection.execute(
            "INSERT INTO forgets (key) SELECT key FROM chats WHERE id = ?", (number,)
        )
        # Taken apart first: deleting a tree by its root goes down one trigger per message, and
        # SQLite follows no more than a thousand.
        connection.execute("UPDATE messages SET parent = NULL WHERE chat = ?", (number,))
        connection.execute("DELETE FROM chats WHERE id = ?", (number,))
    return doomed


def delete_everything(connection: sqlite3.Connection) -> None:
    """Every chat, draft and picture goes at once, and all that the engine keeps of them."""
    connection.execute("UPDATE messages SET parent = NULL")
    for table in ("drafts", "chats", "pictures", "forgets"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO forgets (key) VALUES (NULL)")


def next_to_forget(connection: sqlite3.Connection) -> ForgetRow | None:
    """What is to be forgotten next."""
    row = connection.execute("SELECT number, key FROM forgets ORDER BY number LIMIT 1").fetchone()
    if row is None:
        return None
    number, key = row
    # Of a damaged key nothing is known but that something is to go: then everything does, which
    # costs no more than reading it again.
    return ForgetRow(number, key if isinstance(key, str) else None)


def confirm_forgotten(connection: sqlite3.Connection, number: int) -> None:
    """The engine has forgotten it."""
    connection.execute("DELETE FROM forgets WHERE number = ?", (number,))


def _read(connection: sqlite3.Connection, which: str) -> list[Chat]:
    rows = connection.execute(
        f"SELECT id, title, created, used, pinned, deleted, forked FROM chats WHERE {which}"
    )
    return [
        Chat(
            chat,
            fields.text(title),
            fields.moment(created),
            fields.moment(used),
            bool(pinned),
            fields.moment(deleted),
            bool(forked),
        )
        for chat, title, created, used, pinned, deleted, forked in rows
    ]
