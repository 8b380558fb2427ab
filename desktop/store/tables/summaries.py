"""A new chat that goes on from the summary of another one.

Functions of a connection, each run as one transaction by `Database.run`.
"""

from __future__ import annotations

import sqlite3

from core.api.reply_format import ReplyFormat
from desktop.store.tables import chats, fields, messages
from desktop.store.tables.forks import Fork
from desktop.store.tables.records import Message

HEADING = "Summary of the conversation so far:"


def begin_from(
    connection: sqlite3.Connection, chat: int, summary: str, question: Message | None
) -> Fork | None:
    """A chat with the instructions and the form of replies of `chat`, and the summary; an
    unanswered question is its draft.

    None if `chat` was deleted meanwhile.
    """
    row = connection.execute(
        "SELECT title, system, format FROM chats WHERE id = ? AND deleted IS NULL", (chat,)
    ).fetchone()
    if row is None:
        return None
    title, system = (fields.text(value) for value in row[:2])
    reply_format = fields.model(ReplyFormat, row[2])
    instructions = "\n\n".join(part for part in (system, f"{HEADING}\n\n{summary}") if part)
    new = chats.create(
        connection, f"{title} (summary)", "", messages.storable(instructions), reply_format
    )
    return Fork(new, question.text, question.pictures) if question else Fork(new)
