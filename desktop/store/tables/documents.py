"""Documents of messages and drafts: extracted texts, once each, and the chosen parts."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from desktop.store.tables import fields
from desktop.store.tables.pictures import Attached, OwnerKind
from desktop.store.tables.records import Attachment, Document

PART_END = "\f"
COLUMNS = "digest, name, chosen, tokens, paged, text, source"


def document_of(
    name: str,
    paged: bool,
    text: str,
    chosen: tuple[int, ...] | None = None,
    tokens: int | None = None,
    source: str = "",
) -> Document:
    """A form feed separates the parts of `text`."""
    digest = hashlib.sha256(f"{int(paged)}{text}".encode()).hexdigest()
    return Document(digest, name, paged, tuple(text.split(PART_END)), chosen, tokens, source)


def attach(
    connection: sqlite3.Connection, kind: OwnerKind, owner: int, shown: Sequence[Attachment]
) -> None:
    documents = [each for each in shown if isinstance(each, Document)]
    for place, document in enumerate(documents):
        # A text without a source may be a mark of damage: reading the file again repairs it.
        connection.execute(
            "INSERT INTO documents (digest, paged, text, source) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO UPDATE SET paged = excluded.paged, text = excluded.text,"
            " source = excluded.source WHERE source = '' AND excluded.source != ''",
            (
                document.digest,
                int(document.paged),
                PART_END.join(document.parts),
                document.source,
            ),
        )
        chosen = None if document.chosen is None else json.dumps(document.chosen)
        connection.execute(
            f"INSERT INTO {kind}_documents VALUES (?, ?, ?, ?, ?, ?)",
            (owner, place, document.digest, document.name, chosen, document.tokens),
        )


def attached(connection: sqlite3.Connection, kind: OwnerKind, owner: int) -> Attached[Document]:
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM {kind}_documents LEFT JOIN documents USING (digest)"
        f" WHERE {kind} = ? ORDER BY place",
        (owner,),
    ).fetchall()
    known = tuple(document for row in rows if (document := _read(row)) is not None)
    return Attached(known, len(rows) - len(known), fields.DAMAGED_DOCUMENT)


def extracted(connection: sqlite3.Connection, source: str) -> Document | None:
    """Find a document by its file's digest; it has no name."""
    row = connection.execute(
        "SELECT digest, '', NULL, NULL, paged, text, source FROM documents WHERE source = ?",
        (source,),
    ).fetchone()
    return _read(row) if row is not None else None


def collect_garbage(connection: sqlite3.Connection) -> None:
    """Delete documents of no message and no draft."""
    connection.execute(
        "DELETE FROM documents WHERE digest NOT IN (SELECT digest FROM message_documents"
        " UNION SELECT digest FROM draft_documents)"
    )


def _read(row: Sequence[Any]) -> Document | None:
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
