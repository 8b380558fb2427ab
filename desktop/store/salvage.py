"""Saves the rows of a damaged file of chats into a new one by SQL alone.

Rows that can't be read come from the newest whole backup: ids are never reused, so they name the
same rows in both files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from core.client.sqlite_errors import ERRORS, is_damage
from desktop.i18n import tr
from desktop.numbers import count_of
from desktop.store.check import IDS, is_empty, is_sound, read_only, structure, structure_of
from desktop.store.tables import fields
from desktop.store.tables.chats import new_key, title_from
from desktop.store.tables.errors import StoreError
from desktop.store.tables.messages import Node, parents_first
from desktop.store.tables.records import ReplyState
from desktop.store.tables.schema import MIGRATIONS, script

# The other tables hold what is deleted once it is done with; a backup would bring that back.
LASTING = ("folders", "chats", "messages", "replies", "message_pictures", "message_documents")
SHARED = ("pictures", "documents")
TABLES = (
    *LASTING,
    *SHARED,
    "reply_parts",
    "drafts",
    "draft_pictures",
    "draft_documents",
    "forgets",
)
KINDS: dict[str, type | tuple[type, ...]] = {
    "INTEGER": int,
    "REAL": (int, float),
    "TEXT": str,
    "BLOB": bytes,
}
# Damage takes whole pages: so many ids are tried one by one before the steps get longer.
CLOSE_LOOK = 1024

# Messages with a lost parent are replies if messages follow them and none of those is a reply.
FIND_REPLIES = """
INSERT OR IGNORE INTO replies (message, state) SELECT id, ? FROM messages
WHERE parent NOT IN (SELECT id FROM messages) AND id IN (SELECT parent FROM messages)
AND id NOT IN (SELECT parent FROM messages JOIN replies ON message = id WHERE parent IS NOT NULL)
"""
# A mark in place of each lost message that a reply follows, or a question of a chat begun earlier.
MARK_LOST = """
INSERT INTO messages (id, chat, parent, text, created, chosen)
SELECT parent, min(chat), 0, ?, min(created), max(chosen) FROM messages AS m
WHERE parent BETWEEN 1 AND id - 1 AND parent NOT IN (SELECT id FROM messages)
AND (id IN (SELECT message FROM replies)
     OR EXISTS (SELECT 1 FROM messages WHERE chat = m.chat AND id < m.parent))
GROUP BY parent
"""


def salvage(path: Path, new: Path, backups: Sequence[Path]) -> str:
    """Fill the empty file `new`, gaps from the first whole one of `backups`; returns a message.

    Raises sqlite3.Error or OSError when `new` can't be written.
    """
    empty = is_empty(path)
    with (
        closing(sqlite3.connect(new, isolation_level=None)) as target,
        closing(sqlite3.connect(":memory:") if empty else read_only(path)) as source,
    ):
        target.execute("PRAGMA secure_delete = ON")
        target.executescript(f"{script(MIGRATIONS)}; PRAGMA user_version = {len(MIGRATIONS)};")
        target.execute("BEGIN")
        gaps = empty + _copy(source, target, TABLES)
        tables = LASTING if _count(target, "messages") else TABLES
        used = next((each for each in backups if _fill_gaps(target, each, tables)), None)
        if gaps:
            _copy(source, target, TABLES, fit=True)
        lost = _mend_messages(target)
        _mend_references(target)
        complete = not (gaps or used or lost)
        if not complete:
            # The key of a deleted chat may be among what is lost: the engine forgets all of them.
            target.execute("INSERT INTO forgets (key) VALUES (NULL)")
        target.execute("COMMIT")
        target.execute("PRAGMA journal_mode = WAL")
        return _words(target, lost, used, complete)


def _words(target: sqlite3.Connection, lost: int, backup: Path | None, complete: bool) -> str:
    count = _count(target, "chats")
    if not count:
        return tr("No chat could be read.")
    chats = count_of(count, "chat")
    saved = count_of(_count(target, "messages") - lost, "message")
    said = [tr("Recovered: {}, {}.").format(chats, saved)]
    if backup is not None:
        moment = f"{datetime.fromtimestamp(backup.stat().st_mtime):%Y-%m-%d %H:%M}"
        said.append(tr("Unreadable parts were restored from the backup of {}.").format(moment))
    if lost:
        marked = tr("Lost, and marked as such in the chats: {}.")
        said.append(marked.format(count_of(lost, "message")))
    if complete:
        said.append(tr("As far as is known, nothing is missing."))
    elif backup is None:
        said.append(tr("Parts of the file could not be read, so more may be missing."))
    return " ".join(said)


def _fill_gaps(target: sqlite3.Connection, backup: Path, tables: Sequence[str]) -> bool:
    """False if the backup is damaged or has nothing that `target` lacks."""
    before = after = target.total_changes
    try:
        with closing(read_only(backup, immutable=True)) as source:
            if is_sound(source, backup):
                _copy(source, target, tables)
                after = target.total_changes
                # Also those that no message showed any more, which are deleted again.
                _copy(source, target, SHARED)
    except (*ERRORS, StoreError):
        return False
    return after > before


def _copy(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    tables: Sequence[str],
    fit: bool = False,
) -> int:
    """Returns at how many places it failed: values of a wrong type are failures, or replaced to
    `fit`."""
    try:
        (version,) = source.execute("PRAGMA user_version").fetchone()
        # Otherwise one damaged line of the schema makes every table unreadable.
        source.execute("PRAGMA writable_schema = ON")
        found = structure(source)
    except ERRORS:
        return 1
    expected = structure_of(version)
    gaps = sum(found.get(table) != expected[table] for table in expected)
    for table in tables:
        names = {name for _, name, *_ in found.get(table, [[]])[0]}
        if names:
            gaps += _copy_rows(source, target, table, names, fit)
    return gaps


def _copy_rows(
    source: sqlite3.Connection, target: sqlite3.Connection, table: str, names: set[str], fit: bool
) -> int:
    columns: dict[str, tuple[str, bool]] = {}
    values = []
    for _, name, kind, required, _, key in target.execute(f"PRAGMA table_info({table})"):
        if name in names or name == "key":
            columns[name] = kind, bool(required)
            is_rowid = key and kind == "INTEGER" and not required
            # The first format has no keys.
            random = "lower(hex(randomblob(16)))"
            values.append("rowid" if is_rowid else name if name in names else random)
    marks = ", ".join("?" for _ in columns)
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    gaps = 0
    required = [must for _, must in columns.values()]
    for row in _rows(source, table, values, required):
        if row is None or row[0] not in IDS:
            gaps += 1
            continue
        fitted = tuple(map(_fitted, columns.values(), row[1:]))
        if fit or fitted == row[1:]:
            target.execute(insert, fitted)
        else:
            gaps += 1
    return gaps


def _rows(
    source: sqlite3.Connection, table: str, values: Sequence[str], required: Sequence[bool]
) -> Iterator[tuple[Any, ...] | None]:
    """Sorted by id; None is a run of unreadable rows."""
    query = f"SELECT rowid, {', '.join(values)} FROM {table} NOT INDEXED"
    at, missed, limit = 1, 0, -1
    while at in IDS:
        rows = f"{query} WHERE rowid >= ? ORDER BY rowid LIMIT {limit}"
        ended = True
        try:
            for row in source.execute(rows, (at,)):
                yield row
                at, missed, ended = max(at, row[0] + 1), 0, limit < 0
            if ended:
                return
            limit = -1
        except ERRORS as error:
            if not is_damage(error):
                raise
            if limit < 0:
                # Python reads one row ahead, and drops the one before an error.
                limit = 1
                continue
            if not missed:
                yield None
                row = _row_by_columns(source, table, values, required, at)
                if row is not None:
                    yield row
                    at += 1
                    continue
            step = 1 + missed // CLOSE_LOOK
            at, missed = at + step, missed + step


def _row_by_columns(
    source: sqlite3.Connection,
    table: str,
    values: Sequence[str],
    required: Sequence[bool],
    number: int,
) -> tuple[Any, ...] | None:
    """Optional values that SQLite can't read are None."""
    row: list[Any] = [number]
    for value, must in zip(values, required, strict=True):
        query = f"SELECT {value} FROM {table} NOT INDEXED WHERE rowid = ?"
        try:
            found = source.execute(query, (number,)).fetchone()
        except ERRORS as error:
            if must or value == "rowid" or not is_damage(error):
                return None
            found = (None,)
        if found is None:
            return None
        row += found
    return tuple(row) if any(each is not None for each in row[1:]) else None


def _fitted(column: tuple[str, bool], value: Any) -> Any:
    kind, required = column
    if isinstance(value, KINDS[kind]) or (value is None and not required):
        return value
    if kind == "TEXT":
        return fields.text(value)
    if not required:
        return None
    return b"" if kind == "BLOB" else 0


def _mend_messages(connection: sqlite3.Connection) -> int:
    """Make every chat a tree again; returns how many marks stand for lost messages.

    Questions are at the root and below replies, replies below questions.
    """
    for table in ("messages", "drafts"):
        connection.execute(
            f"UPDATE OR REPLACE {table} SET chat = (SELECT ifnull(max(id), 0) + 1 FROM chats)"
            " WHERE chat NOT BETWEEN ? AND ?",
            (IDS[0], IDS[-1]),
        )
    connection.execute(FIND_REPLIES, (ReplyState.STOPPED,))
    lost = connection.execute(MARK_LOST, (fields.DAMAGED,)).rowcount
    connection.execute(FIND_REPLIES, (ReplyState.STOPPED,))
    replies = {number for (number,) in connection.execute("SELECT message FROM replies")}
    known: dict[int, tuple[int, bool]] = {}
    last: dict[tuple[int, bool], int] = {}
    parents: list[tuple[int | None, int]] = []
    rows = connection.execute("SELECT id, chat, parent FROM messages").fetchall()
    chats = {number: chat for number, chat, _ in rows}
    nodes = [Node(number, fields.whole(parent), ()) for number, _, parent in rows]
    for number, parent, _ in parents_first(nodes):
        chat, is_reply = chats[number], number in replies
        upper = None if parent is None else known.get(parent)
        if upper is not None and upper[0] == chat and not (upper[1] and is_reply):
            # Below a question is a reply, also where its other row was lost.
            is_reply = not upper[1]
        elif parent is not None or is_reply:
            is_reply = is_reply and (chat, False) in last
            parent = last.get((chat, not is_reply))
        known[number] = chat, is_reply
        last[chat, is_reply] = number
        parents.append((parent, number))
    connection.executemany("UPDATE messages SET parent = ? WHERE id = ?", parents)
    found = {number for number, (_, is_reply) in known.items() if is_reply}
    connection.executemany(
        "INSERT INTO replies (message, state) VALUES (?, ?)",
        [(number, ReplyState.STOPPED) for number in found - replies],
    )
    connection.executemany(
        "DELETE FROM replies WHERE message = ?", [(number,) for number in replies - found]
    )
    return lost


def _mend_references(connection: sqlite3.Connection) -> None:
    """Add missing chats, pictures and documents; delete rows that belong to nothing."""
    missing = connection.execute(
        "SELECT chat FROM messages UNION SELECT chat FROM drafts WHERE chat IS NOT NULL"
        " EXCEPT SELECT id FROM chats"
    ).fetchall()
    for (chat,) in missing:
        first, created, used = connection.execute(
            "SELECT (SELECT text FROM messages WHERE chat = ?1 AND text != ?2 ORDER BY id LIMIT 1),"
            " ifnull(min(created), 0), ifnull(max(created), 0) FROM messages WHERE chat = ?1",
            (chat, fields.DAMAGED),
        ).fetchone()
        title = tr("Recovered: {}").format(title_from(first)) if first else tr("Recovered")
        connection.execute(
            "INSERT INTO chats (id, title, created, used, key) VALUES (?, ?, ?, ?, ?)",
            (chat, title, created, used, new_key()),
        )
    for table in ("chats", "drafts"):
        connection.execute(
            f"UPDATE {table} SET folder = NULL WHERE folder NOT IN (SELECT id FROM folders)"
        )
    # A part that can't be read would be added to the text of a reply that can.
    connection.execute("DELETE FROM reply_parts WHERE text = ?", (fields.DAMAGED,))
    # A damaged moment must not empty the trash.
    connection.execute("UPDATE chats SET deleted = NULL WHERE deleted < created")
    connection.execute("UPDATE messages SET deleted = NULL WHERE deleted > 0 AND deleted < created")
    for table in ("message_pictures", "draft_pictures"):
        # The picture itself is a file; only its thumbnail is lost.
        connection.execute(
            "INSERT OR IGNORE INTO pictures SELECT digest, ifnull(resized_width, 0),"
            f" ifnull(resized_height, 0), x'' FROM {table}"
        )
    for table in ("message_documents", "draft_documents"):
        # Else the message would lose a document without a word.
        connection.execute(
            f"INSERT OR IGNORE INTO documents SELECT digest, 0, ?, '' FROM {table}",
            (fields.DAMAGED_DOCUMENT,),
        )
    for table, row, *_ in connection.execute("PRAGMA foreign_key_check").fetchall():
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)
