"""The search index: a file of its own next to the chats, which can be deleted and made again.

    texts   the folded text of each message and its documents, with what tells that the message was
            changed since
    words   FTS5 over those texts, for the beginnings of words

The file of chats is attached for reading only. Functions take the connection.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.client.sqlite_errors import ERRORS
from core.system.private_files import open_or_create
from desktop.search.folding import Extract, extract, fold
from desktop.store.tables import fields

log = logging.getLogger(__name__)

VERSION = 1
# Messages of one step; between steps, queries have their turn.
STEP_MESSAGES = 200
STEP_CHARACTERS = 2_000_000
# Ids that one step of a scan goes through: about 20 ms.
SCAN_IDS = 20_000

# No strict table: damage can change the type of a value in the file of chats.
# `size` is a message's characters and documents, of which none are left when it is purged.
TEXTS = "CREATE TABLE texts (id INTEGER PRIMARY KEY, created, size, text TEXT)"
WORDS = (
    "CREATE VIRTUAL TABLE words USING fts5(text, content='texts', content_rowid='id',"
    " tokenize='unicode61 remove_diacritics 0', prefix='2 3')"
)
SIZE = "length(m.text) + (SELECT count(*) FROM chats.message_documents WHERE message = m.id)"
# Messages that were deleted (`deleted` is 0 if their row stays) or changed. A repaired file of
# chats may use ids for other messages.
STALE = f"""
SELECT t.id FROM texts AS t LEFT JOIN chats.messages AS m
ON m.id = t.id AND m.created IS t.created AND {SIZE} IS t.size AND m.deleted IS NOT 0
WHERE m.id IS NULL
"""
# The names and texts of a message's documents, '' without any. One that was left out in part is
# found whole: people search for what they added.
DOCUMENTS = """
ifnull((SELECT group_concat(a.name || char(10) || d.text, char(10))
FROM chats.message_documents AS a JOIN chats.documents AS d USING (digest)
WHERE a.message = m.id), '')
"""
MISSING = f"""
SELECT id, created, text, {SIZE}, {DOCUMENTS} FROM chats.messages AS m
WHERE id < ? AND deleted IS NOT 0 AND NOT EXISTS (SELECT 1 FROM texts WHERE id = m.id)
ORDER BY id DESC LIMIT ?
"""
FOUND = """
SELECT m.id, m.chat, c.title, m.text, m.created, r.message IS NOT NULL, r.model, {documents}
FROM {source} JOIN chats.messages AS m ON m.id = t.id JOIN chats.chats AS c ON c.id = m.chat
LEFT JOIN chats.replies AS r ON r.message = m.id
WHERE {conditions} AND c.deleted IS NULL AND m.deleted IS NULL
AND m.created >= :since
AND (:chat IS NULL OR m.chat = :chat)
AND (:model = '' OR r.model = :model)
AND (NOT :pictures OR EXISTS (SELECT 1 FROM chats.message_pictures WHERE message = m.id))
ORDER BY t.id DESC LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class Query:
    """Folded terms that a message must contain, and filters: chat, model, earliest moment,
    pictures.

    Next to other terms, a tag (`#word`) may be in the chat's title instead.
    """

    terms: tuple[str, ...]
    chat: int | None = None
    model: str = ""
    since: float = 0.0
    pictures: bool = False

    @property
    def tags(self) -> list[str]:
        return [term for term in self.terms if term.startswith("#") and len(term) > 1]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message, or with 0 a chat by its title. The extract may be from a document."""

    message: int
    chat: int
    title: str
    created: float
    is_reply: bool
    model: str
    extract: Extract
    in_document: bool = False


def open_index(path: Path, chats: Path) -> sqlite3.Connection:
    """Raises sqlite3.Error or OSError."""
    os.close(open_or_create(path, os.O_RDWR))
    connection = sqlite3.connect(path.absolute().as_uri(), uri=True, isolation_level=None)
    try:
        connection.text_factory = fields.decode
        connection.execute("PRAGMA journal_mode = WAL")
        # What a power cut takes is indexed again.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("ATTACH ? AS chats", (f"{chats.absolute().as_uri()}?mode=ro",))
        (version,) = connection.execute("PRAGMA main.user_version").fetchone()
        if version != VERSION:
            _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def remove(path: Path) -> None:
    """Raises OSError."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def count_missing(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute(
        "SELECT count(*) FROM chats.messages"
        " WHERE deleted IS NOT 0 AND id NOT IN (SELECT id FROM texts)"
    ).fetchone()
    return int(count)


def drop_stale(connection: sqlite3.Connection) -> bool:
    """Forget deleted or changed messages; returns whether there were any.

    Their words are overwritten: FTS5 keeps deleted ones until it merges.
    """
    stale = [number for (number,) in connection.execute(STALE)]
    if not stale:
        return False
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        given = json.dumps(stale)
        chosen = "id IN (SELECT value FROM json_each(?))"
        if _has_words(connection):
            connection.execute(
                "INSERT INTO words (words, rowid, text)"
                f" SELECT 'delete', id, text FROM texts WHERE {chosen}",
                (given,),
            )
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute(f"DELETE FROM texts WHERE {chosen}", (given,))
    connection.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchone()
    return True


def add_missing(connection: sqlite3.Connection, below: int) -> int:
    """Index the newest missing messages below the id `below`; returns the lowest id, or 0."""
    cursor = connection.execute(MISSING, (below, STEP_MESSAGES))
    rows: list[tuple[int, object, object, str]] = []
    characters = 0
    while characters < STEP_CHARACTERS and (row := cursor.fetchone()):
        number, created, text, size, documents = row
        whole = fields.text(text) + (f"\n{fields.text(documents)}" if documents else "")
        rows.append((number, created, size, fold(whole)))
        characters += len(rows[-1][-1])
    cursor.close()
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", rows)
        if _has_words(connection):
            connection.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)",
                [(number, text) for number, *_, text in rows],
            )
    return rows[-1][0] if rows else 0


def newest(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT ifnull(max(id), 0) FROM texts").fetchone()
    return int(number)


def begin_words(connection: sqlite3.Connection, query: Query, most: int) -> list[Hit]:
    """The newest messages in which words begin with the terms."""
    terms = [term for term in query.terms if term not in query.tags] or query.terms
    # FTS5 splits words at other characters.
    words = (" ".join(re.findall(r"[^\W_]+", term)) for term in terms)
    wanted = [f'"{each}"*' for each in words if each]
    if not wanted or not _has_words(connection):
        return []
    source = "words JOIN texts AS t ON t.id = words.rowid"
    order = FOUND.replace("ORDER BY t.id", "ORDER BY words.rowid")
    return _hits(connection, query, most, order, source, "words MATCH :words", " AND ".join(wanted))


def scan(connection: sqlite3.Connection, query: Query, below: int, most: int) -> list[Hit]:
    """Messages with one of the `SCAN_IDS` ids below `below` that contain the terms anywhere."""
    between = f"t.id BETWEEN {below - SCAN_IDS} AND {below - 1}"
    return _hits(connection, query, most, FOUND, "texts AS t", between)


def titled(connection: sqlite3.Connection, query: Query, most: int) -> list[Hit]:
    if not query.terms or query.chat or query.model or query.pictures:
        return []
    rows = connection.execute(
        "SELECT id, title, used FROM chats.chats WHERE deleted IS NULL AND used >= ?"
        " ORDER BY used DESC",
        (query.since,),
    )
    found = [(chat, fields.text(title), fields.moment(used)) for chat, title, used in rows]
    return [
        Hit(0, chat, title, used, False, "", extract(title, query.terms))
        for chat, title, used in found
        if all(term in fold(title) for term in query.terms)
    ][:most]


def models(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT DISTINCT model FROM chats.replies WHERE model IS NOT NULL")
    return sorted({fields.text(name) for (name,) in rows} - {"", fields.DAMAGED})


def _hits(
    connection: sqlite3.Connection,
    query: Query,
    most: int,
    sql: str,
    source: str,
    condition: str,
    words: str = "",
) -> list[Hit]:
    named = {f"term{place}": term for place, term in enumerate(query.terms)}
    conditions, tagged = [condition], {}
    for name, term in named.items():
        found = f"instr(t.text, :{name})"
        if term in query.tags and len(query.tags) < len(query.terms):
            tagged[f"chats_of_{name}"] = json.dumps(_with_title(connection, term))
            found = f"({found} OR m.chat IN (SELECT value FROM json_each(:chats_of_{name})))"
        conditions.append(found)
    rows = connection.execute(
        sql.format(source=source, conditions=" AND ".join(conditions), documents=DOCUMENTS),
        named
        | tagged
        | {
            "words": words,
            "since": query.since,
            "chat": query.chat,
            "model": query.model,
            "pictures": query.pictures,
            "most": most,
        },
    )
    # One text at a time: they can be long.
    return [
        Hit(
            message,
            chat,
            fields.text(title),
            fields.moment(created),
            bool(is_reply),
            model if isinstance(model, str) else "",
            *_extracted(fields.text(text), documents, query.terms),
        )
        for message, chat, title, text, created, is_reply, model, documents in rows
    ]


def _with_title(connection: sqlite3.Connection, term: str) -> list[int]:
    rows = connection.execute("SELECT id, title FROM chats.chats WHERE deleted IS NULL")
    return [chat for chat, title in rows if term in fold(fields.text(title))]


def _extracted(text: str, documents: object, terms: Sequence[str]) -> tuple[Extract, bool]:
    """The extract, and whether it is of a document."""
    found = extract(text, terms)
    if found.match or not documents:
        return found, False
    return extract(fields.text(documents), terms), True


def _make(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for table in ("words", "texts"):
            connection.execute(f"DROP TABLE IF EXISTS main.{table}")
        connection.execute(TEXTS)
        try:
            connection.execute(WORDS)
        except ERRORS:
            # A build of SQLite without FTS5: everything is found by the scan.
            log.warning("This SQLite has no FTS5")
        connection.execute(f"PRAGMA main.user_version = {VERSION}")


def _has_words(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM main.sqlite_schema WHERE name = 'words'")
    return found.fetchone() is not None
