"""A file that arrives in pieces, under a temporary name, with a journal of their digests.

The journal is only appended to and never trusted: a piece counts if its bytes have the noted
digest. A kill, a power cut or a bad disk costs the pieces that it hit.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from core.api.errors import DiskFullError, DownloadFolderError
from core.client.blobs import open_regular
from core.downloads.messages import RemoteFile
from core.system.private_files import DISK_IS_FULL, RESERVE_BYTES, open_or_create

_BLOCK = 2**20
# About 400,000 pieces, far more than the longest download leaves.
_MOST_JOURNAL_BYTES = 64 * 2**20
_LINE = re.compile(r"(\d{1,19}) (\d{1,19}) ([0-9a-f]{64})")
_ETAG = re.compile(r'etag ("[\x21\x23-\x7e]{0,200}")')


@dataclass(frozen=True, slots=True)
class Piece:
    start: int
    end: int
    digest: str


class PartFile:
    """`pending` bytes more are in memory."""

    def __init__(self, work: Path, number: int, file: RemoteFile) -> None:
        self.path = work / f"{number}.part"
        self.journal = work / f"{number}.journal"
        self.file = file
        self.etag = ""
        self.pending = 0
        # In order, without overlaps.
        self._pieces: list[Piece] = []
        self._stopped = threading.Event()

    @property
    def received(self) -> int:
        return sum(piece.end - piece.start for piece in self.pieces)

    @property
    def pieces(self) -> list[Piece]:
        return self._pieces.copy()

    def read_journal(self) -> None:
        self._pieces.clear()
        try:
            with open_regular(self.journal) as journal:
                text = journal.read(_MOST_JOURNAL_BYTES).decode("ascii", "replace")
        except OSError:
            return
        # A line that a kill cut off has no end.
        for line in text.split("\n")[:-1]:
            if match := _LINE.fullmatch(line):
                piece = Piece(int(match[1]), int(match[2]), match[3])
                if piece.start < piece.end <= self.file.size:
                    self._put(piece)
            elif match := _ETAG.fullmatch(line):
                self.etag = match[1]

    def check(self) -> bool:
        """Read the file, and drop pieces that aren't on disk as they arrived; True if the whole is
        as published.

        Raises DownloadFolderError.
        """
        whole, at = self._published_hash(), 0
        with self._opened() as part:
            for piece in self.pieces:
                own = hashlib.sha256()
                for block in _blocks(part, piece.start, piece.end):
                    own.update(block)
                    if at == piece.start:
                        whole.update(block)
                    if self._stopped.is_set():
                        return False
                if own.hexdigest() != piece.digest:
                    self._pieces.remove(piece)
                elif at == piece.start:
                    at = piece.end
        return at == self.file.size and whole.hexdigest() == self._published_digest()

    def has_digest(self, path: Path) -> bool:
        whole = self._published_hash()
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size != self.file.size:
                return False
            for block in _blocks(file, 0, self.file.size):
                whole.update(block)
                if self._stopped.is_set():
                    return False
        return whole.hexdigest() == self._published_digest()

    def gap(self) -> tuple[int, int] | None:
        at = 0
        for piece in self._pieces:
            if at < piece.start:
                return at, piece.start
            at = piece.end
        return (at, self.file.size) if at < self.file.size else None

    def keep(self, start: int, data: bytes) -> None:
        """Raises DiskFullError, DownloadFolderError."""
        piece = Piece(start, start + len(data), hashlib.sha256(data).hexdigest())
        with _named_errors(self.path):
            if shutil.disk_usage(self.path.parent).free < RESERVE_BYTES + len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with os.fdopen(open_or_create(self.path, os.O_RDWR), "r+b") as part:
                part.seek(start)
                part.write(data)
            self._note(f"{piece.start} {piece.end} {piece.digest}")
        self._put(piece)

    def holds(self, start: int, data: bytes) -> bool:
        with self._opened() as part:
            return b"".join(_blocks(part, start, start + len(data))) == data

    def note_etag(self, etag: str) -> None:
        """A weak validator says too little."""
        if etag != self.etag and _ETAG.fullmatch(f"etag {etag}"):
            self.etag = etag
            with _named_errors(self.path):
                self._note(f"etag {etag}")

    def start_over(self) -> None:
        self._pieces.clear()
        self.etag = ""
        with _named_errors(self.path):
            self.journal.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)

    def finish(self) -> None:
        with self._opened() as part:
            part.truncate(self.file.size)
            os.fsync(part.fileno())

    def stop(self) -> None:
        self._stopped.set()

    def _put(self, piece: Piece) -> None:
        first = bisect_right(self._pieces, piece.start, key=lambda other: other.end)
        last = bisect_left(self._pieces, piece.end, key=lambda other: other.start)
        self._pieces[first:last] = [piece]

    def _note(self, line: str) -> None:
        with os.fdopen(open_or_create(self.journal, os.O_WRONLY | os.O_APPEND), "ab") as journal:
            journal.write(f"{line}\n".encode())

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with (
            _named_errors(self.path),
            os.fdopen(open_or_create(self.path, os.O_RDWR), "r+b") as part,
        ):
            yield part

    def _published_hash(self) -> hashlib._Hash:
        if self.file.sha256:
            return hashlib.sha256()
        return hashlib.sha1(f"blob {self.file.size}\0".encode(), usedforsecurity=False)

    def _published_digest(self) -> str:
        return self.file.sha256 or self.file.git_blob


def _blocks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end and (block := file.read(min(_BLOCK, end - start))):
        start += len(block)
        yield block


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in DISK_IS_FULL:
            raise DiskFullError(
                f"The disk of {path.parent} is full. What has arrived is kept: make room and go on."
            ) from error
        raise DownloadFolderError(f"{path} can't be used: {error.strerror}.") from error
