"""Saves the rows of a damaged file of chats into a new one, by SQL alone.

Rows that SQLite can't read come from the newest backup. The ids of chats and messages are never
used twice, so they name the same rows in both files.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from core.client.sqlite_errors import ERRORS, is_damage
from desktop.i18n import tr
from desktop.number_format import whole
from desktop.store.check import IDS, is_empty, is_sound, read_only, structure, structure_of
from desktop.store.tables import fields
from desktop.store.tables.chats import new_key, title_from
from desktop.store.tables.faults import StoreError
from desktop.store.tables.records import ReplyState
from desktop.store.tables.schema import MIGRATIONS, script

# The other tables hold what is deleted once it is done with; a backup would bring that back.
LASTING = ("chats", "messages", "replies", "message_pictures")
TABLES = (*LASTING, "pictures", "reply_parts", "drafts", "draft_pictures", "forgets")
KINDS: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (int, float),
    "TEXT": (str,),
    "BLOB": (bytes,),
}
# Damage takes whole pages: so many ids are tried one by one before the steps get longer.
CLOSE_LOOK = 1024


# A statement and its values.
Insert: TypeAlias = tuple[str, list[Any]]


class Column(NamedTuple):
    """A column of the newest format; `is_id` for one that is the rowid."""

    name: str
    kind: str
    required: bool
    is_id: bool


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Counts of what is in the new file. `backup` is the moment of the backup that was used."""

    chats: int
    messages: int
    lost_messages: int
    complete: bool
    backup: float | None

    def words(self) -> str:
        if not self.chats:
            return tr("No chat could be read.")
        chats = tr("1 chat") if self.chats == 1 else tr("{} chats").format(whole(self.chats))
        said = [tr("Saved: {}, {}.").format(chats, _messages_in_words(self.messages))]
        if self.backup is not None:
            moment = f"{datetime.fromtimestamp(self.backup):%Y-%m-%d %H:%M}"
            said.append(tr("What could not be read comes from the backup of {}.").format(moment))
        if self.lost_messages:
            lost = _messages_in_words(self.lost_messages)
            said.append(tr("Lost, and marked in the chats: {}.").format(lost))
        if self.complete:
            said.append(tr("Nothing is known to be missing."))
        elif self.backup is None:
            said.append(tr("Parts of the file could not be read, so more may be missing."))
        return " ".join(said)


def salvage(path: Path, new: Path, backups: Sequence[Path]) -> Salvaged:
    """Write what can be read of `path` and its log into the empty file `new`.

    The first of `backups` that is whole fills the gaps. Raises sqlite3.Error or OSError when `new`
    can't be written.
    """
    with closing(sqlite3.connect(new, isolation_level=None)) as target:
        target.execute("PRAGMA secure_delete = ON")
        target.executescript(f"{script(MIGRATIONS)}; PRAGMA user_version = {len(MIGRATIONS)};")
        target.execute("BEGIN")
        odd: list[Insert] = []
        gaps = 1 if is_empty(path) else _copy(path, target, TABLES, odd)
        tables = LASTING if _count(target, "messages") else TABLES
        used = next((each for each in backups if _fill_gaps(target, each, tables)), None)
        for insert, values in odd:
            target.execute(insert, values)
        lost = _mend_messages(target)
        _mend_references(target)
        complete = not (gaps or odd or used or lost)
        if not complete:
            # The key of a deleted chat may be among what is lost: the engine forgets all of them.
            target.execute("INSERT INTO forgets (key) VALUES (NULL)")
        target.execute("COMMIT")
        target.execute("PRAGMA journal_mode = WAL")
        return Salvaged(
            chats=_count(target, "chats"),
            messages=_count(target, "messages") - lost,
            lost_messages=lost,
            complete=complete,
            backup=None if used is None else used.stat().st_mtime,
        )


def _fill_gaps(target: sqlite3.Connection, backup: Path, tables: Sequence[str]) -> bool:
    """Add the rows that `target` lacks; False if the backup has none, or is damaged itself."""
    before = after = target.total_changes
    try:
        with closing(read_only(backup, immutable=True)) as source:
            if is_sound(source, backup):
                _copy(backup, target, tables, [], immutable=True)
                after = target.total_changes
                # Also those that no message showed any more, which are deleted again.
                _copy(backup, target, ("pictures",), [], immutable=True)
    except (*ERRORS, StoreError):
        return False
    return after > before


def _copy(
    path: Path,
    target: sqlite3.Connection,
    tables: Sequence[str],
    odd: list[Insert],
    immutable: bool = False,
) -> int:
    """Copy the rows that SQLite reads and `target` lacks; returns at how many places it failed.

    A row with a value that its column can't hold goes to `odd`: a backup may have a better one.
    """
    with closing(read_only(path, immutable)) as source:
        try:
            (version,) = source.execute("PRAGMA user_version").fetchone()
            # Otherwise one damaged line of the schema makes every table unreadable.
            source.execute("PRAGMA writable_schema = ON")
            there = structure(source)
        except ERRORS:
            return 1
        expected = structure_of(version)
        gaps = sum(there.get(table) != expected[table] for table in expected)
        for table in tables:
            names = {name for _, name, *_ in there.get(table, [[]])[0]}
            columns = [each for each in _columns(target, table) if each.name in names]
            if columns:
                gaps += _copy_rows(source, target, table, columns, odd)
        return gaps


def _columns(connection: sqlite3.Connection, table: str) -> list[Column]:
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    has_id = sum(bool(key) for *_, key in rows) == 1
    return [
        Column(name, kind, bool(required), has_id and bool(key) and kind == "INTEGER")
        for _, name, kind, required, _, key in rows
    ]


def _copy_rows(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    table: str,
    columns: Sequence[Column],
    odd: list[Insert],
) -> int:
    names = [each.name for each in columns]
    keyless = table == "chats" and "key" not in names
    into = ", ".join([*names, "key"] if keyless else names)
    insert = f"INSERT OR IGNORE INTO {table} ({into}) VALUES (?{', ?' * into.count(',')})"
    gaps = 0
    for row in _rows(source, f"SELECT rowid, {', '.join(names)} FROM {table} NOT INDEXED"):
        if row is None or row[0] not in IDS:
            gaps += 1
            continue
        found = [
            row[0] if column.is_id else value
            for column, value in zip(columns, row[1:], strict=True)
        ]
        values = [_fitted(*each) for each in zip(columns, found, strict=True)]
        key = [new_key()] if keyless else []
        if values == found:
            target.execute(insert, values + key)
        else:
            odd.append((insert, values + key))
    return gaps


def _rows(source: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...] | None]:
    """The rows in the order of their ids; None for each run of rows that can't be read."""
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
            step = 1 + missed // CLOSE_LOOK
            at, missed = at + step, missed + step


def _fitted(column: Column, value: Any) -> Any:
    """The value, or what stands for one of a type that the column can't hold."""
    if isinstance(value, KINDS[column.kind]) or (value is None and not column.required):
        return value
    if column.kind == "TEXT":
        return fields.text(value)
    if not column.required:
        return None
    return b"" if column.kind == "BLOB" else 0


def _mend_messages(connection: sqlite3.Connection) -> int:
    """Hang each message below one that it can follow; returns how many lost ones have a mark now.

    In every chat a question is at the root, replies are below questions, questions below replies,
    and what is below has the higher id.
    """
    for table in ("messages", "drafts"):
        connection.execute(
            f"UPDATE OR REPLACE {table} SET chat = (SELECT ifnull(max(id), 0) + 1 FROM chats)"
            " WHERE chat NOT BETWEEN ? AND ?",
            (IDS[0], IDS[-1]),
        )
    rows = connection.execute("SELECT id, chat, parent FROM messages ORDER BY id").fetchall()
    replies = {number for (number,) in connection.execute("SELECT message FROM replies")}
    there = {number for number, _, _ in rows}
    below: dict[int, list[bool]] = defaultdict(list)
    for number, _, parent in rows:
        below[parent].append(number in replies)
    tree = _Tree()
    for number, chat, parent in rows:
        upper = tree.kinds.get(parent)
        if upper and upper[0] == chat and not (upper[1] and number in replies):
            # Below a question is a reply, also where its other row was lost.
            tree.place(number, chat, not upper[1])
            continue
        orphaned = parent in range(1, number) and parent not in there
        asked = bool(below[number]) and not any(below[number])
        is_reply = number in replies or (orphaned and asked)
        lost = parent if orphaned else number - 1 if is_reply and number - 1 not in there else 0
        questions = tree.ids[chat, False]
        if lost and lost not in tree.kinds and (is_reply or min(questions, default=lost) < lost):
            tree.marks.append((lost, chat, fields.DAMAGED))
            tree.parents[lost] = tree.place(lost, chat, not is_reply)
        tree.parents[number] = tree.place(number, chat, is_reply and bool(questions))
    tree.write(connection, replies)
    return len(tree.marks)


class _Tree:
    """The messages of all chats, in the order of their ids."""

    def __init__(self) -> None:
        # The chat of each message, and if it is a reply; ids by chat and kind.
        self.kinds: dict[int, tuple[int, bool]] = {}
        self.ids: dict[tuple[int, bool], list[int]] = defaultdict(list)
        self.parents: dict[int, int | None] = {}
        self.marks: list[tuple[int, int, str]] = []

    def place(self, number: int, chat: int, is_reply: bool) -> int | None:
        """Add a message; returns the last one before it that it can follow."""
        self.kinds[number] = chat, is_reply
        insort(self.ids[chat, is_reply], number)
        others = self.ids[chat, not is_reply]
        at = bisect_left(others, number)
        return others[at - 1] if at else None

    def write(self, connection: sqlite3.Connection, replies: set[int]) -> None:
        connection.executemany(
            "INSERT INTO messages (id, chat, text, created, chosen) VALUES (?, ?, ?, ifnull("
            "(SELECT created FROM messages WHERE id < ?1 ORDER BY id DESC LIMIT 1), 0), 0)",
            self.marks,
        )
        moves = [(parent, number) for number, parent in self.parents.items()]
        connection.executemany("UPDATE messages SET parent = ? WHERE id = ?", moves)
        connection.executemany(
            "UPDATE messages SET chosen = (SELECT ifnull(max(chosen), 0) FROM messages"
            " WHERE parent = ?1) WHERE id = ?1",
            [(lost,) for lost, *_ in self.marks],
        )
        found = {number for number, (_, is_reply) in self.kinds.items() if is_reply}
        connection.executemany(
            "INSERT OR IGNORE INTO replies (message, state) VALUES (?, ?)",
            [(number, ReplyState.STOPPED) for number in found],
        )
        questions = [(number,) for number in replies & self.kinds.keys() - found]
        connection.executemany("DELETE FROM replies WHERE message = ?", questions)


def _mend_references(connection: sqlite3.Connection) -> None:
    """Chats for messages and drafts that have lost theirs; rows that belong to nothing go."""
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
    # A damaged moment must not empty the trash.
    connection.execute("UPDATE chats SET deleted = NULL WHERE deleted < created")
    for table, owner, owners in (
        ("replies", "message", "SELECT id FROM messages"),
        ("reply_parts", "message", "SELECT message FROM replies"),
        ("message_pictures", "message", "SELECT id FROM messages"),
        ("draft_pictures", "draft", "SELECT number FROM drafts"),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {owner} NOT IN ({owners})")
    for table in ("message_pictures", "draft_pictures"):
        # The picture itself is a file; only its thumbnail is lost.
        connection.execute(
            "INSERT OR IGNORE INTO pictures SELECT digest, ifnull(resized_width, 0),"
            f" ifnull(resized_height, 0), x'' FROM {table}"
        )


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _messages_in_words(count: int) -> str:
    return tr("1 message") if count == 1 else tr("{} messages").format(whole(count))
