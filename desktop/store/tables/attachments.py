"""Pictures and documents of messages and drafts.

A picture's bytes are a file named by its digest; a document's text is stored once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from desktop.store.tables import fields
from desktop.store.tables.records import Attachment, Document, Picture

OwnerKind: TypeAlias = Literal["message", "draft"]
PART_END = "\f"


class Attached(NamedTuple):
    """`text` is the owner's, with a line for each damaged attachment."""

    text: str
    pictures: tuple[Picture, ...] = ()
    documents: tuple[Document, ...] = ()


def document_of(name: str, paged: bool, text: str, source: str = "") -> Document:
    """A form feed separates the parts of `text`."""
    digest = hashlib.sha256(f"{int(paged)}{text}".encode()).hexdigest()
    return Document(digest, name, paged, tuple(text.split(PART_END)), source=source)


def attach(
    connection: sqlite3.Connection, kind: OwnerKind, owner: int, shown: Sequence[Attachment]
) -> None:
    for place, picture in enumerate(each for each in shown if isinstance(each, Picture)):
        connection.execute(
            "INSERT INTO pictures (digest, width, height, thumbnail) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING",
            (picture.digest, *picture.size, picture.thumbnail),
        )
        resized, name = picture.resized or (None, None), fields.storable(picture.name)
        connection.execute(
            f"INSERT INTO {kind}_pictures VALUES (?, ?, ?, ?, ?, ?, ?)",
            (owner, place, picture.digest, name, *resized, picture.tokens),
        )
    for place, document in enumerate(each for each in shown if isinstance(each, Document)):
        text, name = PART_END.join(document.parts), fields.storable(document.name)
        # A text without a source may be a mark of damage: reading the file again repairs it.
        connection.execute(
            "INSERT INTO documents (digest, paged, text, source) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO UPDATE SET paged = excluded.paged, text = excluded.text,"
            " source = excluded.source WHERE source = '' AND excluded.source != ''",
            (document.digest, int(document.paged), text, document.source),
        )
        chosen = None if document.chosen is None else json.dumps(document.chosen)
        connection.execute(
            f"INSERT INTO {kind}_documents VALUES (?, ?, ?, ?, ?, ?)",
            (owner, place, document.digest, name, chosen, document.tokens),
        )


def attached(connection: sqlite3.Connection, kind: OwnerKind, owner: int, text: str) -> Attached:
    rows = connection.execute(
        "SELECT digest, name, width, height, resized_width, resized_height, tokens, thumbnail"
        f" FROM {kind}_pictures LEFT JOIN pictures USING (digest) WHERE {kind} = ?"
        " ORDER BY place",
        (owner,),
    ).fetchall()
    pictures = tuple(_picture(row) for row in rows if fields.is_digest(row[0]))
    lost = [fields.DAMAGED_PICTURE] * (len(rows) - len(pictures))
    rows = connection.execute(
        "SELECT digest, name, chosen, tokens, paged, text, source"
        f" FROM {kind}_documents LEFT JOIN documents USING (digest) WHERE {kind} = ?"
        " ORDER BY place",
        (owner,),
    ).fetchall()
    documents = tuple(each for row in rows if (each := _document(row)) is not None)
    lost += [fields.DAMAGED_DOCUMENT] * (len(rows) - len(documents))
    return Attached("\n\n".join([text, *lost]), pictures, documents)


def extracted(connection: sqlite3.Connection, source: str) -> Document | None:
    """Find a document, without its name, by its file's digest."""
    row = connection.execute(
        "SELECT digest, '', NULL, NULL, paged, text, source FROM documents WHERE source = ?",
        (source,),
    ).fetchone()
    return _document(row) if row is not None else None


def digests(connection: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM pictures")}


def collect_pictures(connection: sqlite3.Connection) -> set[str]:
    """Delete pictures of no message and no draft; returns the digests in use."""
    connection.execute(
        "DELETE FROM pictures WHERE digest NOT IN (SELECT digest FROM message_pictures"
        " UNION SELECT digest FROM draft_pictures)"
    )
    return digests(connection)


def collect_documents(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM documents WHERE digest NOT IN (SELECT digest FROM message_documents"
        " UNION SELECT digest FROM draft_documents)"
    )


def _picture(row: Sequence[Any]) -> Picture:
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


def _document(row: Sequence[Any]) -> Document | None:
    """None if the text or the choice is lost: the model would read something else."""
    digest, name, chosen, tokens, paged, text, source = row
    if not fields.is_digest(digest) or not isinstance(text, str):
        return None
    parts = tuple(text.split(PART_END))
    places = None
    if chosen is not None:
        found = set(fields.numbers(chosen, 0))
        places = tuple(sorted(place for place in found if place < len(parts)))
        if not places:
            return None
    return Document(
        digest,
        fields.text(name),
        bool(paged),
        parts,
        places,
        fields.whole(tokens),
        source if isinstance(source, str) else "",
    )
