"""Parts of a streaming reply: one row a second, until the reply is stored whole.

An UPDATE writes a row's whole text anew, so a reply of a megabyte would write a gigabyte.
"""

from __future__ import annotations

import sqlite3

from core.api.stats import RequestStats
from desktop.store.tables import fields


def append(
    connection: sqlite3.Connection,
    message: int,
    text: str,
    thought: str,
    ids: bytes,
    stats: RequestStats | None,
) -> None:
    """Store what a running reply has gained, and its numbers by now."""
    # Numbers take as much as a second's words: only the newest are kept.
    connection.execute(
        "UPDATE reply_parts SET stats = NULL"
        " WHERE number = (SELECT max(number) FROM reply_parts WHERE message = ?)",
        (message,),
    )
    connection.execute(
        "INSERT INTO reply_parts (message, text, thought, ids, stats) VALUES (?, ?, ?, ?, ?)",
        (message, text, thought, ids, fields.stored_model(stats)),
    )


def merge(connection: sqlite3.Connection, chat: int | None = None) -> None:
    """Add parts to the replies they belong to: those of one chat, or all."""
    of_chat = "SELECT id FROM messages WHERE ?1 IS NULL OR chat = ?1"
    found = connection.execute(
        f"SELECT DISTINCT message FROM reply_parts WHERE message IN ({of_chat})", (chat,)
    ).fetchall()
    for (message,) in found:
        _merge(connection, message)


def drop(connection: sqlite3.Connection, message: int) -> None:
    """Delete the parts of a reply that is stored whole."""
    connection.execute("DELETE FROM reply_parts WHERE message = ?", (message,))


def _merge(connection: sqlite3.Connection, message: int) -> None:
    parts = connection.execute(
        "SELECT text, thought, ids, stats FROM reply_parts WHERE message = ? ORDER BY number",
        (message,),
    ).fetchall()
    texts, thoughts, ids, stats = zip(*parts, strict=True)
    connection.execute(
        "UPDATE messages SET text = text || ? WHERE id = ?",
        ("".join(map(fields.text, texts)), message),
    )
    (before,) = connection.execute(
        "SELECT ids FROM replies WHERE message = ?", (message,)
    ).fetchone() or (None,)
    # Ids that don't belong to all of the text would be worse than none.
    known = [each for each in (before, *ids) if isinstance(each, bytes)]
    connection.execute(
        "UPDATE replies SET reasoning = reasoning || ?, ids = ?, stats = ifnull(?, stats)"
        " WHERE message = ?",
        (
            "".join(map(fields.text, thoughts)),
            b"".join(known) if len(known) == 1 + len(ids) else None,
            next((each for each in reversed(stats) if isinstance(each, str)), None),
            message,
        ),
    )
    drop(connection, message)
