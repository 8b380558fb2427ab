"""Forks with a chat's messages, and chats begun from its summary."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from desktop.store.tables import chats, fields, messages
from desktop.store.tables.records import Attachment, Begin, Message

HEADING = "Summary of the conversation so far:"


@dataclass(frozen=True, slots=True)
class Fork:
    """The new chat, and the message for its composer."""

    chat: int
    text: str = ""
    shown: tuple[Attachment, ...] = ()


def fork(connection: sqlite3.Connection, chat: int, message: int) -> Fork | None:
    """The shown path as a new chat: including the reply `message`, or up to before the user's, to
    ask something else. None if it is no longer shown."""
    path = messages.read_path(connection, chat)
    place = next((at for at, each in enumerate(path) if each.id == message), None)
    if place is None:
        return None
    new = _like(connection, chat)
    copies: dict[int, int] = {}
    parent: int | None = None
    for each in path[: place + path[place].is_reply]:
        fitting = messages.fitting_parent(connection, new, parent, each.is_reply)
        parent = copies[each.id] = _copy(connection, each.id, new, fitting)
    (left_out,) = connection.execute("SELECT left_out FROM chats WHERE id = ?", (chat,)).fetchone()
    chats.leave_out(connection, new, copies.get(left_out))
    if path[place].is_reply:
        return Fork(new)
    return Fork(new, path[place].text, path[place].attachments)


def begin_from(
    connection: sqlite3.Connection, chat: int, summary: str, question: Message | None
) -> Fork | None:
    """Like `chat`, with its summary in the instructions and the unanswered question as draft. None
    if it was deleted."""
    row = connection.execute(
        "SELECT title, system, format, settings, folder FROM chats"
        " WHERE id = ? AND deleted IS NULL",
        (chat,),
    ).fetchone()
    if row is None:
        return None
    title, begin, folder = fields.text(row[0]), fields.begin(*row[1:4]), fields.whole(row[4])
    parts = (begin.system, f"{HEADING}\n\n{summary}")
    system = "\n\n".join(part for part in parts if part)
    title = f"{title} (summary)"
    new = chats.create(connection, title, begin=replace(begin, system=system), folder=folder)
    return Fork(new, question.text, question.attachments) if question else Fork(new)


def _like(connection: sqlite3.Connection, chat: int) -> int:
    """A chat with the same instructions and clock: both share the KV cache."""
    title, created, system, reply_format, *others = connection.execute(
        "SELECT title, created, system, format, settings, place, agreed, folder FROM chats"
        " WHERE id = ?",
        (chat,),
    ).fetchone()
    new = chats.create(connection, fields.text(title), begin=Begin(fields.text(system)))
    connection.execute(
        "UPDATE chats SET created = ?, format = ?, settings = ?, place = ?, agreed = ?, folder = ?,"
        " forked = 1 WHERE id = ?",
        (fields.moment(created), reply_format, *others, new),
    )
    return new


def _copy(connection: sqlite3.Connection, message: int, chat: int, parent: int | None) -> int:
    cursor = connection.execute(
        "INSERT INTO messages (chat, parent, text, created, chosen)"
        " SELECT ?, ?, text, created, chosen FROM messages WHERE id = ?",
        (chat, parent, message),
    )
    assert cursor.lastrowid is not None
    # A running reply goes on in its own chat; the copy ends here.
    connection.execute(
        "INSERT INTO replies SELECT ?, iif(state = 'running', 'stopped', state), reasoning, ids,"
        " tokenizer, starts_in_reasoning, finish_reason, error, stats, format, pauses, model,"
        " edited FROM replies WHERE message = ?",
        (cursor.lastrowid, message),
    )
    connection.execute(
        "INSERT INTO message_pictures SELECT ?, place, digest, name, resized_width,"
        " resized_height, tokens FROM message_pictures WHERE message = ?",
        (cursor.lastrowid, message),
    )
    connection.execute(
        "INSERT INTO message_documents SELECT ?, place, digest, name, chosen, tokens"
        " FROM message_documents WHERE message = ?",
        (cursor.lastrowid, message),
    )
    return cursor.lastrowid
