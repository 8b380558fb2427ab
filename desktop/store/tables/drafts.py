"""Drafts, which outlive a restart and a power cut."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.api.reply_format import ReplyFormat
from desktop.store.tables import attachments, fields, folders
from desktop.store.tables.records import Attachment, Folder


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """A draft of a chat; without one, with what the new chat will have."""

    chat: int | None
    text: str
    system: str
    key: str
    shown: tuple[Attachment, ...]
    format: ReplyFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Folder | None = None


def stored(connection: sqlite3.Connection) -> list[StoredDraft]:
    rows = connection.execute(
        "SELECT number, chat, text, system, key, format, settings, folder FROM drafts"
    ).fetchall()
    return [_read(connection, row) for row in rows]


def save(
    connection: sqlite3.Connection,
    chat: int | None,
    text: str,
    system: str,
    key: str,
    shown: Sequence[Attachment],
    reply_format: ReplyFormat | None = None,
    settings: Mapping[str, object] | None = None,
    folder: int | None = None,
) -> None:
    """Does nothing for a chat that is gone."""
    remove(connection, chat)
    known = "SELECT 1 FROM chats WHERE id = ?"
    if chat is not None and connection.execute(known, (chat,)).fetchone() is None:
        return
    form = fields.stored_model(reply_format)
    cursor = connection.execute(
        "INSERT INTO drafts (chat, text, system, key, format, settings, folder)"
        " VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM folders WHERE id = ?))",
        (chat, text, system, key, form, fields.stored_tree(settings or {}), folder),
    )
    assert cursor.lastrowid is not None
    attachments.attach(connection, "draft", cursor.lastrowid, shown)


def remove(connection: sqlite3.Connection, chat: int | None) -> None:
    connection.execute("DELETE FROM drafts WHERE chat IS ?", (chat,))


def _read(connection: sqlite3.Connection, row: Sequence[Any]) -> StoredDraft:
    number, chat, text, system, key, reply_format, settings, folder = row
    shown = attachments.attached(connection, "draft", number, fields.text(text))
    return StoredDraft(
        fields.whole(chat),
        shown.text,
        fields.text(system),
        fields.text(key),
        (*shown.documents, *shown.pictures),
        fields.model(ReplyFormat, reply_format),
        fields.tree(settings),
        folders.read(connection, folder),
    )
