"""Who uses which segment: one append-only log of small records for each owner.

A record names a segment and the run before it, so the logs alone tell owners and parents when a
store is opened. A record counts only with its own checksum, which also covers the model's
fingerprint and the owner: a torn, flipped or misplaced one is no record. Knows nothing of which
segments exist; `core.cache.disk.store` keeps the logs free of records that name none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.cache.disk.files import UNFINISHED, Files
from core.cache.disk.segment import KEY_BYTES, SegmentId, SegmentKind

# The owner of what belongs to nobody in particular; goes only when everything goes.
NOBODY = ""
OWNER_PATTERN = re.compile(r"[0-9A-Za-z_-]{0,64}")
RECORD_BYTES = 80
# 838,860 records; a longer log is not ours and not worth the memory.
_MAX_LOG_BYTES = 2**26
_CHECKSUM_BYTES = RECORD_BYTES - 1 - 2 * KEY_BYTES
_CODES = {SegmentKind.KV: 1, SegmentKind.STATE: 2, SegmentKind.EMBEDDING: 3}
_KINDS = {code: kind for kind, code in _CODES.items()}
# Stands for "no parent"; no digest is all zeros.
_NO_PARENT = bytes(KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Record:
    """An owner uses segment `name`; `parent` is the key of the run before it, None at the start."""

    name: SegmentId
    parent: bytes | None


@dataclass(frozen=True, slots=True)
class Log:
    """What one log says; `clean` means that all its bytes are good records."""

    records: tuple[Record, ...]
    clean: bool


class OwnerLogs:
    """The logs in one folder. Everything that writes may raise OSError."""

    def __init__(self, folder: Path, fingerprint: bytes, files: Files) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._files = files
        self._num_records: dict[str, int] = {}  # places in the log, good or not

    def read_all(self) -> dict[str, Log]:
        """Every log by owner, in the order of their names."""
        return {owner: self._read(owner) for owner in sorted(self.owners())}

    def owners(self) -> list[str]:
        """The owners that have a log on disk."""
        names = (_owner(entry.name) for entry in self._files.list(self._folder))
        return [owner for owner in names if owner is not None]

    def append(self, owner: str, records: Sequence[Record], sync: bool) -> None:
        """Add records behind the last whole one, over what a torn write left there."""
        data = b"".join(self._pack(owner, record) for record in records)
        count = self._num_records.get(owner, 0)
        self._files.append(self._path(owner), count * RECORD_BYTES, data, sync)
        self._num_records[owner] = count + len(records)

    def rewrite(self, owner: str, records: Iterable[Record]) -> None:
        """Replace a log by exactly these records; one without records is deleted."""
        data = b"".join(self._pack(owner, record) for record in records)
        if data:
            self._files.write(self._path(owner), [data])
        else:
            self._files.delete(self._path(owner))
        self._num_records[owner] = len(data) // RECORD_BYTES

    def delete(self, owner: str) -> None:
        """Remove a log; `sync` makes that survive a power cut."""
        self._files.delete(self._path(owner))
        self._num_records.pop(owner, None)

    def sync(self) -> None:
        """Wait until all that was deleted is gone for good."""
        self._files.sync_folder(self._folder)

    def sweep(self) -> None:
        """Delete what was never finished."""
        for entry in self._files.list(self._folder):
            if entry.name.startswith(UNFINISHED):
                self._files.delete(self._folder / entry.name)

    def _read(self, owner: str) -> Log:
        try:
            data = self._files.read(self._path(owner), _MAX_LOG_BYTES)
        except OSError:
            self._num_records[owner] = 0
            return Log((), clean=False)
        places = range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES)
        found = [self._unpack(owner, bytes(data[at : at + RECORD_BYTES])) for at in places]
        self._num_records[owner] = len(found)
        records = tuple(record for record in found if record is not None)
        return Log(records, clean=len(records) * RECORD_BYTES == len(data))

    def _pack(self, owner: str, record: Record) -> bytes:
        assert record.parent != _NO_PARENT
        code = _CODES[record.name.kind].to_bytes(1)
        body = code + record.name.key + (record.parent or _NO_PARENT)
        return body + self._checksum(owner, body)

    def _unpack(self, owner: str, data: bytes) -> Record | None:
        body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        kind = _KINDS.get(body[0])
        if kind is None or self._checksum(owner, body) != checksum:
            return None
        key, parent = body[1 : 1 + KEY_BYTES], body[1 + KEY_BYTES :]
        return Record(SegmentId(kind, key), parent if parent != _NO_PARENT else None)

    def _checksum(self, owner: str, body: bytes) -> bytes:
        return hashlib.blake2b(
            owner.encode() + body,
            digest_size=_CHECKSUM_BYTES,
            key=self._fingerprint,
            person=b"waymark owners 1",
        ).digest()

    def _path(self, owner: str) -> Path:
        return self._folder / log_name(owner)


def log_name(owner: str) -> str:
    """A file name for an owner, also where "a" and "A" or "con" would be trouble."""
    assert OWNER_PATTERN.fullmatch(owner)
    return "of-" + re.sub("[A-Z]", lambda found: "+" + found[0].lower(), owner) + ".log"


def _owner(file_name: str) -> str | None:
    """The owner whose log has this name, None for other files."""
    inner = file_name.removeprefix("of-").removesuffix(".log")
    owner = re.sub(r"\+([a-z])", lambda found: found[1].upper(), inner)
    if OWNER_PATTERN.fullmatch(owner) and log_name(owner) == file_name:
        return owner
    return None
