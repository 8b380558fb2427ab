"""Drafts, which outlive a restart and a power cut."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from desktop.store.tables import attachments, fields, folders
from desktop.store.tables.records import Attachment, Begin, Folder


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """Without a chat, with what the new chat will have."""

    chat: int | None
    text: str
    key: str
    shown: tuple[Attachment, ...] = ()
    begin: Begin = field(default_factory=Begin)
    folder: Folder | None = None


def stored(connection: sqlite3.Connection) -> list[StoredDraft]:
    rows = connection.execute(
        "SELECT number, chat, text, system, key, format, settings, folder FROM drafts"
    ).fetchall()
    return [_read(connection, row) for row in rows]


def save(connection: sqlite3.Connection, draft: StoredDraft) -> None:
    """Nothing for a chat that is gone."""
    chat, folder = draft.chat, draft.folder.id if draft.folder else None
    remove(connection, chat)
    known = "SELECT 1 FROM chats WHERE id = ?"
    if chat is not None and connection.execute(known, (chat,)).fetchone() is None:
        return
    cursor = connection.execute(
        "INSERT INTO drafts (chat, text, key, system, format, settings, folder)"
        " VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM folders WHERE id = ?))",
        (chat, fields.storable(draft.text), draft.key, *fields.stored_begin(draft.begin), folder),
    )
    assert cursor.lastrowid is not None
    attachments.attach(connection, "draft", cursor.lastrowid, draft.shown)


def remove(connection: sqlite3.Connection, chat: int | None) -> None:
    connection.execute("DELETE FROM drafts WHERE chat IS ?", (chat,))


def _read(connection: sqlite3.Connection, row: Sequence[Any]) -> StoredDraft:
    number, chat, text, system, key, reply_format, settings, folder = row
    shown = attachments.attached(connection, "draft", number, fields.text(text))
    return StoredDraft(
        fields.whole(chat),
        shown.text,
        fields.text(key),
        (*shown.documents, *shown.pictures),
        fields.begin(system, reply_format, settings),
        folders.read(connection, folder),
    )
