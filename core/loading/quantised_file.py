"""One safetensors file of quantised matrices, known to the byte before any weight is read, but for
the SHA-256 of each tensor in its metadata.

Nothing is synced: after a power cut a digest is wrong, and the weights are quantised again.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore
from core.weights.container import Facts
from core.weights.memory import allocate
from core.weights.published.packed import PackedPlan
from core.weights.safetensors_file import LENGTH_BYTES, HeaderError, parse_header, write_header
from core.weights.spec import Use, WeightPlan, slice_rows
from core.weights.stream import InOrder, fill
from kernels.common.memory import octets
from kernels.linear.reference import QuantisedTensors, WeightFormats

FORMAT = "waymark-matrices-2"
DIGEST_BYTES = hashlib.sha256().digest_size
_PIECE_BYTES = 4 * 2**20  # between two calls of `advance`
_BEHIND = 2  # slices that wait to be written


class QuantisedDamagedError(Exception):
    """The message says how."""


@dataclass(frozen=True, slots=True)
class QuantisedPart:
    """`start` counts bytes of the data, `index` parts of the file."""

    index: int
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class QuantisedLayout:
    def __init__(self, plan: WeightPlan, formats: WeightFormats, packed: PackedPlan) -> None:
        """The matrices of `plan` that may be quantised; those in `packed` are one slice."""
        self._parts: list[QuantisedPart] = []
        self._data_bytes = 0
        self.matrices: dict[str, list[tuple[QuantisedPart, ...]]] = {}
        for name, spec in plan.items():
            if Use.MATRIX in spec.use and not spec.exact:
                row = torch.zeros(1, *spec.shape[1:], dtype=spec.dtype)
                rows = [spec.shape[0]] if name in packed else slice_rows(spec, formats)
                self._add(name, formats.usual.quantise(row), rows)
        self.data_start = len(self.header("", [bytes(DIGEST_BYTES)] * len(self._parts)))

    @property
    def num_parts(self) -> int:
        return len(self._parts)

    @property
    def num_bytes(self) -> int:
        return self.data_start + self._data_bytes

    def header(self, key: str, digests: Sequence[bytes]) -> bytes:
        """The first `data_start` bytes; an empty `key` stands for any of 64 characters."""
        joined = b"".join(digests).hex()
        metadata = {"format": FORMAT, "key": key or "0" * 64, "digests": joined}
        return write_header(metadata, ((each.name, each.dtype, each.shape) for each in self._parts))

    def digests(self, header: bytes, key: str) -> list[bytes] | None:
        """None if `header` isn't one of these matrices and `key`."""
        try:
            metadata, tensors = parse_header(header[LENGTH_BYTES:], self.num_bytes)
            joined = bytes.fromhex(metadata["digests"])
        except (HeaderError, ValueError, KeyError, TypeError):
            return None
        starts = range(0, len(joined), DIGEST_BYTES)
        digests = [joined[start : start + DIGEST_BYTES] for start in starts]
        expected = self.header(key, digests)
        same = (metadata, tensors) == parse_header(expected[LENGTH_BYTES:], self.num_bytes)
        return digests if same and header[:LENGTH_BYTES] == expected[:LENGTH_BYTES] else None

    def _add(self, name: str, row: QuantisedTensors, slices: Sequence[int]) -> None:
        self.matrices[name] = []
        for place, rows in enumerate(slices):
            first = len(self._parts)
            for which, each in enumerate(row):
                shape, index = (rows, *each.shape[1:]), len(self._parts)
                part_name = f"{name}.{place}.{which}"
                part = QuantisedPart(index, part_name, each.dtype, shape, self._data_bytes)
                self._parts.append(part)
                self._data_bytes += part.num_bytes
            self.matrices[name].append(tuple(self._parts[first:]))


class QuantisedWriter:
    """Another thread digests and writes. Failures end only the writing; `trouble` says why."""

    def __init__(self, blobs: DiskStore, layout: QuantisedLayout, facts: Facts) -> None:
        """`facts` identify the weights files. Raises OSError."""
        self.trouble = ""
        self.layout, self.facts, self._blobs = layout, facts, blobs
        blobs.drop_part(WEIGHTS)
        self._next = dict.fromkeys(layout.matrices, 0)
        self._digests = [b""] * layout.num_parts
        self._behind = InOrder("keep", _BEHIND)

    def keep(self, name: str, kept: QuantisedTensors) -> None:
        slices, place = self.layout.matrices[name], self._next[name]
        self._next[name] += 1
        parts = slices[place] if place < len(slices) else ()
        expected = [(part.dtype, part.shape) for part in parts]
        if [(tensor.dtype, tuple(tensor.shape)) for tensor in kept] != expected:
            self.stop(f"{name} is held in another shape than was planned")
        if not self.trouble:
            self._behind.call(self._write, parts, kept)

    def finish(self, key: str) -> bool:
        self._behind.wait()
        if not self.trouble and all(self._digests):
            try:
                self._blobs.write_part(WEIGHTS, 0, self.layout.header(key, self._digests))
                self._behind.close()
                return True
            except OSError as error:
                self.stop(f"{error.strerror}")
        self.drop()
        return False

    def stop(self, trouble: str) -> None:
        self.trouble = trouble
        with contextlib.suppress(OSError):  # the next load deletes it
            self._blobs.drop_part(WEIGHTS)

    def drop(self) -> None:
        self._behind.close()
        self.stop(self.trouble)

    def _write(self, parts: Sequence[QuantisedPart], kept: QuantisedTensors) -> None:
        if self.trouble:
            return
        try:
            if self._blobs.excess(sum(part.num_bytes for part in parts)) > 0:
                self.stop("the disk is too full")
                return
            for part, tensor in zip(parts, kept, strict=True):
                data = octets(tensor)
                self._digests[part.index] = hashlib.sha256(data).digest()
                self._blobs.write_part(WEIGHTS, self.layout.data_start + part.start, data)
        except OSError as error:
            self.stop(f"{error.strerror}")


class QuantisedFile:
    """Verifies each matrix; `reading_s` are the seconds this took."""

    def __init__(self, path: Path, layout: QuantisedLayout, key: str) -> None:
        """Raises QuantisedDamagedError, OSError."""
        self.path, self.layout = path, layout
        self.reading_s = 0.0
        self.advance: Callable[[int], None] = lambda num_bytes: None
        self._file: FileIO = path.open("rb", buffering=0)
        try:
            self._digests = self._read_digests(key)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def matrix(self, name: str) -> list[QuantisedTensors]:
        began = time.monotonic()
        try:
            return [
                tuple(self._tensor(part) for part in parts) for parts in self.layout.matrices[name]
            ]
        except (OSError, BrokenWeightsError) as error:
            raise QuantisedDamagedError(f"it can't be read: {error}") from error
        finally:
            self.reading_s += time.monotonic() - began

    def _read_digests(self, key: str) -> list[bytes]:
        num_bytes = self._file.seek(0, 2)
        if num_bytes != self.layout.num_bytes:
            raise QuantisedDamagedError(
                f"it has {num_bytes:,} bytes, not {self.layout.num_bytes:,}"
            )
        self._file.seek(0)
        header = bytearray(self.layout.data_start)
        try:
            fill(self._file, memoryview(header), self.path)
        except BrokenWeightsError as error:
            raise QuantisedDamagedError("it ends inside its header") from error
        digests = self.layout.digests(bytes(header), key)
        if digests is None:
            raise QuantisedDamagedError("its header is not one that Waymark writes")
        return digests

    def _tensor(self, part: QuantisedPart) -> Tensor:
        tensor = allocate(part.shape, part.dtype)
        data, digest = octets(tensor), hashlib.sha256()
        self._file.seek(self.layout.data_start + part.start)
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            fill(self._file, piece, self.path)
            digest.update(piece)
            self.advance(len(piece))
        if digest.digest() != self._digests[part.index]:
            raise QuantisedDamagedError(f"{part.name} has another checksum")
        return tensor
