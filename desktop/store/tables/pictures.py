"""The pictures of messages and drafts. Their bytes are files named by digest (`BlobStore`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from desktop.store.tables import fields
from desktop.store.tables.records import Attachment, Picture

OwnerKind: TypeAlias = Literal["message", "draft"]
T = TypeVar("T")


class Attached(NamedTuple, Generic[T]):
    """Pictures or documents of a message or draft; `lost` counts damaged ones."""

    found: tuple[T, ...] = ()
    lost: int = 0
    words: str = fields.DAMAGED_PICTURE

    def told_in(self, text: str) -> str:
        """The text with a line for each lost one."""
        return "\n\n".join([text] + [self.words] * self.lost) if self.lost else text


def attach(
    connection: sqlite3.Connection, kind: OwnerKind, owner: int, shown: Sequence[Attachment]
) -> None:
    pictures = [each for each in shown if isinstance(each, Picture)]
    for place, picture in enumerate(pictures):
        connection.execute(
            "INSERT INTO pictures (digest, width, height, thumbnail) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING",
            (picture.digest, *picture.size, picture.thumbnail),
        )
        connection.execute(
            f"INSERT INTO {kind}_pictures VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                owner,
                place,
                picture.digest,
                picture.name,
                *(picture.resized or (None, None)),
                picture.tokens,
            ),
        )


def attached(connection: sqlite3.Connection, kind: OwnerKind, owner: int) -> Attached[Picture]:
    rows = connection.execute(
        "SELECT digest, name, width, height, resized_width, resized_height, tokens, thumbnail"
        f" FROM {kind}_pictures LEFT JOIN pictures USING (digest) WHERE {kind} = ? ORDER BY place",
        (owner,),
    ).fetchall()
    known = tuple(_read(row) for row in rows if fields.is_digest(row[0]))
    return Attached(known, len(rows) - len(known))


def digests(connection: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM pictures")}


def collect_garbage(connection: sqlite3.Connection) -> set[str]:
    """Delete pictures of no message and no draft; returns the digests in use."""
    connection.execute(
        "DELETE FROM pictures WHERE digest NOT IN (SELECT digest FROM message_pictures"
        " UNION SELECT digest FROM draft_pictures)"
    )
    return digests(connection)


def _read(row: Sequence[Any]) -> Picture:
    digest, name, width, height, new_width, new_height, tokens, thumbnail = row
    resized = _pair(new_width, new_height)
    return Picture(
        digest,
        fields.text(name),
        _pair(width, height) or resized or (0, 0),
        resized,
        fields.whole(tokens),
        thumbnail if isinstance(thumbnail, bytes) else b"",
    )


def _pair(width: object, height: object) -> tuple[int, int] | None:
    pair = fields.whole(width), fields.whole(height)
    return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])
