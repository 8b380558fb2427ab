"""A new chat that begins with the messages of another one; its pictures are shared.

Functions of a connection, each run as one transaction by `Database.run`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from desktop.store.tables import chats, fields, messages
from desktop.store.tables.records import Picture


@dataclass(frozen=True, slots=True)
class Fork:
    """The new chat, and what stands in its composer: the user's message it was made at, if any."""

    chat: int
    text: str = ""
    pictures: tuple[Picture, ...] = ()


def fork(connection: sqlite3.Connection, chat: int, message: int) -> Fork | None:
    """The shown path up to `message` as a new chat; None if it is no longer shown.

    A fork at a reply ends with it. A fork at a user's message ends before it: asking something else
    there is what it is for.
    """
    path = messages.read_path(connection, chat)
    place = next((at for at, each in enumerate(path) if each.id == message), None)
    if place is None:
        return None
    new = _like(connection, chat)
    copies: dict[int, int] = {}
    parent: int | None = None
    for each in path[: place + path[place].is_reply]:
        parent = copies[each.id] = _copy(connection, each.id, new, parent)
    (left_out,) = connection.execute("SELECT left_out FROM chats WHERE id = ?", (chat,)).fetchone()
    chats.leave_out(connection, new, copies.get(left_out))
    if path[place].is_reply:
        return Fork(new)
    return Fork(new, path[place].text, path[place].pictures)


def _like(connection: sqlite3.Connection, chat: int) -> int:
    """An empty chat with the same prompt, at the same time: what was read counts for both."""
    title, created, system, reply_format = connection.execute(
        "SELECT title, created, system, format FROM chats WHERE id = ?", (chat,)
    ).fetchone()
    new = chats.create(connection, fields.text(title), system=fields.text(system))
    connection.execute(
        "UPDATE chats SET created = ?, format = ?, forked = 1 WHERE id = ?",
        (fields.moment(created), reply_format, new),
    )
    return new


def _copy(connection: sqlite3.Connection, message: int, chat: int, parent: int | None) -> int:
    cursor = connection.execute(
        "INSERT INTO messages (chat, parent, text, created, chosen)"
        " SELECT ?, ?, text, created, chosen FROM messages WHERE id = ?",
        (chat, parent, message),
    )
    assert cursor.lastrowid is not None
    # A reply on its way goes on in the chat it was asked in; here it ends with what had arrived.
    connection.execute(
        "INSERT INTO replies SELECT ?, iif(state = 'running', 'stopped', state), reasoning, ids,"
        " tokenizer, starts_in_reasoning, finish_reason, error, stats, format, pauses, model"
        " FROM replies"
        " WHERE message = ?",
        (cursor.lastrowid, message),
    )
    connection.execute(
        "INSERT INTO message_pictures SELECT ?, place, digest, name, resized_width,"
        " resized_height, tokens FROM message_pictures WHERE message = ?",
        (cursor.lastrowid, message),
    )
    return cursor.lastrowid
