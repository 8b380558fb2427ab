"""Reads one weights file once, front to back, straight into tensors, and digests it meanwhile. It
isn't mapped: a program that truncates a mapped file ends the process. Memory also holds a few
pieces of `PIECE_BYTES`."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import FileIO
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.weights.container import TensorStream, changed, unreadable
from core.weights.memory import allocate
from core.weights.safetensors_file import (
    DTYPES,
    LENGTH_BYTES,
    HeaderError,
    StoredTensor,
    WeightsFile,
    read_raw_header,
)
from core.weights.table import FileTable, Table
from kernels.common.memory import octets

# Between two calls of `advance`; so small a piece stays in a processor's cache.
PIECE_BYTES = 2 * 2**20
_PIECES = 3  # one is filled and copied while others are digested


def fill(file: FileIO, view: memoryview, path: Path) -> None:
    """A raw read may return less."""
    filled = 0
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            raise changed(path.name)
        filled += count


class OpenFiles:
    """Files open from the first read to `close`; `advance` gets the bytes read."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._open: dict[Path, FileIO] = {}

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def read(self, path: Path, start: int, view: memoryview) -> None:
        """Raises BrokenWeightsError, MissingFileError."""
        try:
            file = self.file(path)
            file.seek(start)
            fill(file, view, path)
        except OSError as error:
            raise unreadable(path, error) from error
        self._advance(len(view))

    def file(self, path: Path) -> FileIO:
        if path not in self._open:
            self._open[path] = path.open("rb", buffering=0)
        return self._open[path]


def look_up(source: WeightsFile, name: str) -> Tensor:
    """Raises BrokenWeightsError, MissingFileError."""
    entry = source.tensors[name]
    tensor = allocate(entry.shape, DTYPES[entry.dtype])
    try:
        with source.path.open("rb", buffering=0) as file:
            file.seek(entry.start)
            fill(file, octets(tensor), source.path)
    except OSError as error:
        raise unreadable(source.path, error) from error
    return tensor


def stream_file(
    source: WeightsFile,
    names: Collection[str],
    take: Callable[[TensorStream], None],
    advance: Callable[[int], None],
    *,
    digest: bool,
) -> bytes:
    """Returns the SHA-256 of the file, or nothing. Raises BrokenWeightsError, MissingFileError."""
    background = _BackgroundDigest() if digest else None
    try:
        with source.path.open("rb", buffering=0) as file:
            _FileStream(source, file, background, advance).read(names, take)
        return background.digest() if background is not None else b""
    except OSError as error:
        raise unreadable(source.path, error) from error
    finally:
        if background is not None:
            background.close()


class _FileStream:
    def __init__(
        self,
        source: WeightsFile,
        file: FileIO,
        digest: _BackgroundDigest | None,
        advance: Callable[[int], None],
    ) -> None:
        self._source, self._file = source, file
        self._digest, self._advance = digest, advance
        self._position = 0
        self._pieces_by_turns = cycle([bytearray(PIECE_BYTES) for _ in range(_PIECES)])

    def read(self, names: Collection[str], take: Callable[[TensorStream], None]) -> None:
        self._pass_header()
        for name, entry in sorted(self._source.tensors.items(), key=lambda item: item[1].start):
            if name in names:
                self._skip_to(entry.start)
                stored = DTYPES[entry.dtype]
                take(TensorStream(name, partial(self._fill, stored), partial(self._table, entry)))
        self._skip_to(self._source.num_bytes)
        if self._file.read(1):
            raise changed(self._source.path.name)

    def _pass_header(self) -> None:
        try:
            raw = read_raw_header(self._file, self._source.num_bytes)
        except HeaderError as error:
            raise changed(self._source.path.name) from error
        if hashlib.sha256(raw).digest() != self._source.header_digest:
            raise changed(self._source.path.name)
        self._position = LENGTH_BYTES + len(raw)
        if self._digest is not None:
            self._digest.update(len(raw).to_bytes(LENGTH_BYTES, "little"))
            self._digest.update(raw)
            self._advance(self._position)

    def _skip_to(self, place: int) -> None:
        if self._digest is None:
            self._position = self._file.seek(place)
        for _ in self._pieces(place - self._position):
            pass

    def _fill(self, stored: torch.dtype, target: Tensor) -> None:
        if stored == target.dtype and target.device.type == "cpu":
            self._read_into(octets(target))
            return
        flat, start = target.view(-1), 0
        for piece in self._pieces(flat.numel() * stored.itemsize):
            count = len(piece) // stored.itemsize
            flat[start : start + count].copy_(torch.frombuffer(piece, dtype=stored))
            start += count

    def _read_into(self, view: memoryview) -> None:
        """Digested on return, so they may be changed."""
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            self._next(piece)
            self._advance(len(piece))
        if self._digest is not None:
            self._digest.wait()

    def _table(self, entry: StoredTensor, dtype: torch.dtype) -> Table:
        rows, width = entry.shape
        return FileTable(self._file, entry.start, (rows, width), DTYPES[entry.dtype], dtype)

    def _pieces(self, num_bytes: int) -> Iterator[memoryview]:
        while num_bytes > 0:
            piece = memoryview(next(self._pieces_by_turns))[: min(num_bytes, PIECE_BYTES)]
            self._next(piece)
            yield piece
            self._advance(len(piece))
            num_bytes -= len(piece)

    def _next(self, piece: memoryview) -> None:
        fill(self._file, piece, self._source.path)
        self._position += len(piece)
        if self._digest is not None:
            self._digest.update(piece)


class InOrder:
    """Calls in another thread, one after the other; `behind` of them may wait."""

    def __init__(self, name: str, behind: int) -> None:
        self._behind = behind
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: deque[Future[None]] = deque()

    def call(self, work: Callable[..., None], *given: Any) -> None:
        self._waiting.append(self._thread.submit(work, *given))
        self.wait(self._behind)

    def wait(self, left: int = 0) -> None:
        while len(self._waiting) > left:
            self._waiting.popleft().result()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


class _BackgroundDigest(InOrder):
    """Data must not change until `_PIECES` - 1 more updates have followed."""

    def __init__(self) -> None:
        super().__init__("digest", _PIECES - 1)
        self._hash = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        self.call(self._hash.update, data)

    def digest(self) -> bytes:
        self.wait()
        return self._hash.digest()
