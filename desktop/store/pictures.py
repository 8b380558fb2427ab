"""Which message shows which picture, and what was known of the picture when it was sent.

The bytes themselves are files (`core.client.blobs`), named by the digests kept here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from desktop.store.records import Picture


def attach(connection: sqlite3.Connection, message: int, shown: Sequence[Picture]) -> None:
    """Hang pictures on a message, in order."""
    _attach(connection, "message_pictures", message, shown)


def attach_to_draft(connection: sqlite3.Connection, draft: int, shown: Sequence[Picture]) -> None:
    """Hang pictures on a draft, in order."""
    _attach(connection, "draft_pictures", draft, shown)


def _attach(
    connection: sqlite3.Connection, table: str, owner: int, shown: Sequence[Picture]
) -> None:
    for place, picture in enumerate(shown):
        connection.execute(
            "INSERT INTO pictures (digest, width, height, thumbnail) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING",
            (picture.digest, *picture.size, picture.thumbnail),
        )
        connection.execute(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                owner,
                place,
                picture.digest,
                picture.name,
                *(picture.resized or (None, None)),
                picture.tokens,
            ),
        )


def attached(connection: sqlite3.Connection, message: int) -> tuple[Picture, ...]:
    """The pictures of a message, in order."""
    return _attached(connection, "message_pictures", "message", message)


def attached_to_draft(connection: sqlite3.Connection, draft: int) -> tuple[Picture, ...]:
    """The pictures of a draft, in order."""
    return _attached(connection, "draft_pictures", "draft", draft)


def _attached(
    connection: sqlite3.Connection, table: str, column: str, owner: int
) -> tuple[Picture, ...]:
    rows = connection.execute(
        "SELECT digest, name, width, height, resized_width, resized_height, tokens, thumbnail"
        f" FROM {table} JOIN pictures USING (digest) WHERE {column} = ? ORDER BY place",
        (owner,),
    )
    return tuple(
        Picture(digest, name, (width, height), _pair(new_width, new_height), tokens, thumbnail)
        for digest, name, width, height, new_width, new_height, tokens, thumbnail in rows
    )


def collect_garbage(connection: sqlite3.Connection) -> set[str]:
    """Forget pictures in no message and no draft; returns the digests that are still in use."""
    connection.execute(
        "DELETE FROM pictures WHERE digest NOT IN (SELECT digest FROM message_pictures"
        " UNION SELECT digest FROM draft_pictures)"
    )
    return {digest for (digest,) in connection.execute("SELECT digest FROM pictures")}


def _pair(width: int | None, height: int | None) -> tuple[int, int] | None:
    return None if width is None or height is None else (width, height)
