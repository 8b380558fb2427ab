"""Turns: a user's message and its empty reply, stored in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from core.api.reply_format import ReplyFormat
from desktop.store.tables import chats, drafts, messages
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Picture


@dataclass(frozen=True, slots=True)
class Turn:
    chat: int
    message: int
    reply: int


def append_turn(
    connection: sqlite3.Connection,
    chat: int | None,
    text: str,
    shown: Sequence[Picture] = (),
    key: str = "",
    system: str = "",
    left: StoredDraft | None = None,
    reply_format: ReplyFormat | None = None,
) -> Turn:
    """Add a turn at the end of the shown path; without a chat, in a new one with this `key`,
    `system` and `reply_format`. It replaces the draft by what is `left` of it."""
    drafts.remove(connection, chat)
    if chat is None:
        title = chats.title_from(messages.storable(text))
        chat = chats.create(connection, title, key, messages.storable(system), reply_format)
    if left is not None:
        drafts.save(connection, chat, left.text, left.system, left.key, left.pictures)
    parent = messages.end_of_path(connection, chat)
    return add_turn(connection, chat, parent, text, shown)


def add_turn(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    text: str,
    shown: Sequence[Picture] = (),
) -> Turn:
    chats.touch(connection, chat)
    message = messages.add_message(connection, chat, parent, text, shown)
    return Turn(chat, message, messages.add_reply(connection, chat, message))


def add_alternative(connection: sqlite3.Connection, chat: int, message: int) -> Turn:
    chats.touch(connection, chat)
    return Turn(chat, message, messages.add_reply(connection, chat, message))
