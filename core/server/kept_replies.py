"""Replies on disk, so that they are found after a restart.

An entry's name and the key it is encrypted with are digests of the conversation up to the reply and
of the reply's text: the file can be read only by who has these already.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from core.api.chat import AssistantMessage
from core.api.params import Frozen
from core.system.private_files import private_folder

MOST_BYTES = 64 * 2**20
_DROPPED_AT_ONCE = 256
_TABLE = "CREATE TABLE IF NOT EXISTS replies (name BLOB UNIQUE, data BLOB)"


class KeptReply(Frozen):
    """A reply, with the chat that it belongs to (`Branch`)."""

    reply: AssistantMessage
    chat: str
    created: float
    lines: tuple[str, ...] = ()


class KeptReplies:
    """A file of at most about `most_bytes`, oldest replies dropped first; without a file, nothing.
    A file that can't be used costs what it held."""

    def __init__(self, file: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._database: sqlite3.Connection | None = None
        if file is None:
            return
        with self._guarded():
            private_folder(file.parent)
            try:
                self._database = _opened(file)
            except sqlite3.DatabaseError:
                delete(file)
                self._database = _opened(file)

    def put(self, key: bytes, kept: KeptReply) -> None:
        data = _crossed(key, kept.model_dump_json().encode("utf-8", "surrogatepass"))
        with self._guarded():
            if self._database is not None and len(data) < self._most_bytes:
                with self._database as writing:
                    writing.execute("REPLACE INTO replies VALUES (?, ?)", (_name(key), data))
                    if self._num_bytes(writing) > self._most_bytes:
                        oldest = "(SELECT rowid FROM replies ORDER BY rowid LIMIT ?)"
                        writing.execute(
                            f"DELETE FROM replies WHERE rowid IN {oldest}", (_DROPPED_AT_ONCE,)
                        )

    def get(self, key: bytes) -> KeptReply | None:
        row = None
        with self._guarded():
            if self._database is not None:
                found = "SELECT data FROM replies WHERE name = ?"
                row = self._database.execute(found, (_name(key),)).fetchone()
        try:
            return row and KeptReply.model_validate_json(_crossed(key, row[0]))
        except ValidationError:
            return None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError):
            self.close()

    def _num_bytes(self, database: sqlite3.Connection) -> int:
        size = "SELECT (page_count - freelist_count) * page_size FROM "
        tables = "pragma_page_count, pragma_freelist_count, pragma_page_size"
        return int(database.execute(size + tables).fetchone()[0])


def delete(file: Path) -> None:
    """Raises OSError."""
    for ending in ("", "-wal", "-shm"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=1)
    try:
        # A power failure may cost the latest replies.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(_TABLE)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16, person=b"name").digest()


def _crossed(key: bytes, data: bytes) -> bytes:
    """Encrypt, or decrypt what was encrypted."""
    stream = hashlib.shake_256(b"data" + key).digest(len(data))
    crossed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return crossed.to_bytes(len(data), "big")
