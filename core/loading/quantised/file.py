"""One file of quantised matrices: written while the weights stream by, read matrix by matrix.

What is written lies under a temporary name until its header is in place, and the header, with the
digests, is the last that is written. Nothing is synced: after a power cut a digest is wrong, and
the weights are quantised once more.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.loading.quantised.layout import QuantisedLayout, QuantisedPart
from core.loading.reading.raw import allocate, fill
from core.storage.files import Files
from core.weights.spec import TensorSpec
from kernels.common.memory import octets
from kernels.linear.reference import QuantisedTensors

_PIECE_BYTES = 4 * 2**20  # between two looks at progress and cancel


class QuantisedDamagedError(Exception):
    """A file of quantised matrices is not what it should be; the words say in which way."""


class QuantisedWriter:
    """Writes what is held of each matrix as it comes by.

    A disk that refuses, or a matrix of another shape, ends the writing and nothing else: `trouble`
    says why in words.
    """

    def __init__(
        self, path: Path, layout: QuantisedLayout, excess: Callable[[int], int], disk: Files
    ) -> None:
        """`excess` says by how many bytes writing so many would be too much for the disk."""
        self.trouble = ""
        self.path, self.layout, self._excess, self._disk = path, layout, excess, disk
        self._next = dict.fromkeys(layout.matrices, 0)
        self._digests = [b""] * layout.num_parts

    def keep(self, name: str, kept: QuantisedTensors) -> None:
        """Write the next slice of a matrix."""
        if self.trouble:
            return
        try:
            self._keep(name, kept)
        except OSError as error:
            self._give_up(f"{error.strerror}")

    def finish(self, key: str) -> bool:
        """Give the file its header, if all was written; whether it is whole."""
        if not self.trouble and all(self._digests):
            try:
                self._disk.write_at(self.path, 0, self.layout.header(key, self._digests))
                return True
            except OSError as error:
                self._give_up(f"{error.strerror}")
        self.drop()
        return False

    def drop(self) -> None:
        """Leave nothing behind."""
        try:
            self._disk.delete(self.path)
        except OSError:
            return  # the next load deletes it

    def _keep(self, name: str, kept: QuantisedTensors) -> None:
        slices, place = self.layout.matrices[name], self._next[name]
        self._next[name] += 1
        parts = slices[place] if place < len(slices) else ()
        expected = [(part.dtype, part.shape) for part in parts]
        if [(tensor.dtype, tuple(tensor.shape)) for tensor in kept] != expected:
            self._give_up(f"{name} is held in another shape than was planned")
            return
        if self._excess(sum(part.num_bytes for part in parts)) > 0:
            self._give_up("the disk is too full")
            return
        for part, tensor in zip(parts, kept, strict=True):
            data = octets(tensor)
            self._digests[part.index] = hashlib.sha256(data).digest()
            start = self.layout.data_start + part.start
            self._disk.write_at(self.path, start, data)

    def _give_up(self, trouble: str) -> None:
        self.trouble = trouble
        self.drop()


class QuantisedFile:
    """Reads the matrices of one file, each once, verified before it is handed out.

    `reading_s` are the seconds spent on it.
    """

    def __init__(
        self,
        path: Path,
        layout: QuantisedLayout,
        key: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the file and check its size and header. Raises QuantisedDamagedError, OSError."""
        self.path, self._layout, self._clock = path, layout, clock
        self.reading_s = 0.0
        self.advance: Callable[[int], None] = lambda num_bytes: None
        self._file: FileIO = path.open("rb", buffering=0)
        try:
            self._digests = self._read_digests(key)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file, so that it can be deleted everywhere."""
        self._file.close()

    def matrix(self, name: str) -> list[QuantisedTensors]:
        """What is held of a matrix, slice by slice. Raises QuantisedDamagedError, and what
        `advance` does."""
        began = self._clock()
        try:
            return [
                tuple(self._tensor(part) for part in parts) for parts in self._layout.matrices[name]
            ]
        except (OSError, BrokenWeightsError) as error:
            raise QuantisedDamagedError(f"it can't be read: {error}") from error
        finally:
            self.reading_s += self._clock() - began

    def _read_digests(self, key: str) -> list[bytes]:
        num_bytes = self._file.seek(0, 2)
        if num_bytes != self._layout.num_bytes:
            raise QuantisedDamagedError(
                f"it has {num_bytes:,} bytes, not {self._layout.num_bytes:,}"
            )
        self._file.seek(0)
        header = bytearray(self._layout.data_start)
        try:
            fill(self._file, memoryview(header), self.path)
        except BrokenWeightsError as error:
            raise QuantisedDamagedError("it ends inside its header") from error
        digests = self._layout.digests(bytes(header), key)
        if digests is None:
            raise QuantisedDamagedError("its header is not one that Waymark writes")
        return digests

    def _tensor(self, part: QuantisedPart) -> Tensor:
        tensor = allocate(TensorSpec(part.shape, part.dtype), torch.device("cpu"))
        digest = hashlib.sha256()
        self._file.seek(self._layout.data_start + part.start)
        for piece in _pieces(octets(tensor)):
            fill(self._file, piece, self.path)
            digest.update(piece)
            self.advance(len(piece))
        if digest.digest() != self._digests[part.index]:
            raise QuantisedDamagedError(f"{part.name} has another checksum")
        return tensor


def _pieces(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), _PIECE_BYTES):
        yield data[start : start + _PIECE_BYTES]
