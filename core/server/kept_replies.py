"""Replies on disk, to be found after a restart.

An entry's name and key come from a digest of the reply's text and of all messages before it, or the
last one only: without these texts it can't be read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from core.api.chat import AssistantMessage
from core.api.params import Frozen
from core.system.private_files import private_folder

MOST_BYTES = 64 * 2**20
_NONCE_BYTES = _SEAL_BYTES = 16
_TABLE = "CREATE TABLE IF NOT EXISTS replies (name BLOB UNIQUE, data BLOB)"


class KeptReply(Frozen):
    """A reply and its `Branch`."""

    reply: AssistantMessage
    chat: str
    created: float
    lines: tuple[str, ...] = ()


class KeptReplies:
    """A file of about `most_bytes`, oldest replies dropped first. One that can't be used costs its
    contents."""

    def __init__(
        self, file: Path | None, most_bytes: int = MOST_BYTES, timeout_s: float = 1.0
    ) -> None:
        self._most_bytes = most_bytes
        self._file, self._timeout_s = file, timeout_s
        self._database: sqlite3.Connection | None = None
        if file is not None:
            with self._guarded():
                private_folder(file.parent)
                self._database = _opened(file, timeout_s)

    def put(self, key: bytes, kept: KeptReply) -> None:
        try:
            data = _encrypted(key, kept.model_dump_json().encode())
        except PydanticSerializationError:  # half a surrogate pair
            return
        with self._guarded():
            if self._database is not None and len(data) < self._most_bytes:
                with self._database as writing:
                    writing.execute("REPLACE INTO replies VALUES (?, ?)", (_name(key), data))
                    if self._num_bytes(writing) > self._most_bytes:
                        quarter = "(SELECT count(*) / 4 + 1 FROM replies)"
                        oldest = f"(SELECT rowid FROM replies ORDER BY rowid LIMIT {quarter})"
                        writing.execute(f"DELETE FROM replies WHERE rowid IN {oldest}")

    def get(self, key: bytes) -> KeptReply | None:
        row = None
        with self._guarded():
            if self._database is not None:
                found = "SELECT data FROM replies WHERE name = ?"
                row = self._database.execute(found, (_name(key),)).fetchone()
        data = _decrypted(key, row[0]) if row else None
        try:
            return KeptReply.model_validate_json(data) if data else None
        except ValidationError:  # of another version
            return None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Leave a file alone that is locked or on a full disk; begin a damaged one anew."""
        try:
            yield
        except (sqlite3.OperationalError, OSError):
            self.close()
        except sqlite3.Error:
            self.close()
            with contextlib.suppress(sqlite3.Error, OSError):
                assert self._file is not None
                delete(self._file)
                self._database = _opened(self._file, self._timeout_s)

    def _num_bytes(self, database: sqlite3.Connection) -> int:
        size = "SELECT (page_count - freelist_count) * page_size FROM "
        tables = "pragma_page_count, pragma_freelist_count, pragma_page_size"
        return int(database.execute(size + tables).fetchone()[0])


def delete(file: Path) -> None:
    """Raises OSError."""
    for ending in ("", "-wal", "-shm"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _opened(file: Path, timeout_s: float) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=timeout_s)
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


def _encrypted(key: bytes, data: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    crossed = _crossed(key + nonce, data)
    return nonce + _seal(key, nonce + crossed) + crossed


def _decrypted(key: bytes, entry: object) -> bytes | None:
    if not isinstance(entry, bytes):
        return None
    nonce, rest = entry[:_NONCE_BYTES], entry[_NONCE_BYTES:]
    seal, crossed = rest[:_SEAL_BYTES], rest[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(key, nonce + crossed)):
        return None
    return _crossed(key + nonce, crossed)


def _seal(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SEAL_BYTES, key=key, person=b"seal").digest()


def _crossed(key: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt. A key is good for one text."""
    stream = hashlib.shake_256(b"data" + key).digest(len(data))
    crossed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return crossed.to_bytes(len(data), "big")
