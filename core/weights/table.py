"""Tables of which single rows are looked up: in memory, or left in the weights file."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from core.api.errors import BrokenWeightsError, MissingFileError

# Row numbers [n] -> rows [n, width] in the model's type. Raises WaymarkError.
Table = Callable[[Tensor], Tensor]


class HeldTable:
    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def __call__(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self._rows)


class FileTable:
    """Rows [rows, width] in a file from byte `start`, as numbers of type `stored`. The file is held
    open, so it may be moved or deleted; after a write it is refused: rows may differ from those
    that were digested."""

    def __init__(
        self,
        file: FileIO,
        start: int,
        shape: tuple[int, int],
        stored: torch.dtype,
        dtype: torch.dtype,
        row_bytes: int | None = None,
    ) -> None:
        """`file` may be closed afterwards, but not read while rows are. `row_bytes`: of rows that
        aren't numbers of a type."""
        self._name = Path(str(file.name)).name
        self._start, self._shape = start, shape
        self._stored, self._dtype = stored, dtype
        self._row_bytes = row_bytes or shape[1] * stored.itemsize
        self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._written = self._last_written()

    def __call__(self, ids: Tensor) -> Tensor:
        """Raises BrokenWeightsError, MissingFileError, IndexError."""
        numbers = ids.tolist()
        data = bytearray(len(numbers) * self._row_bytes)
        view = memoryview(data)
        try:
            for place, number in enumerate(numbers):
                self._read(number, view[place * self._row_bytes :][: self._row_bytes])
            unchanged = self._last_written() == self._written
        except OSError as error:
            message = f"{self._name} can't be read any more: {error.strerror}."
            raise MissingFileError(message) from error
        if not unchanged:
            raise self._changed()
        if not data:
            return torch.empty(0, self._shape[1], dtype=self._dtype, device=ids.device)
        return self._decoded(data, numbers).to(ids.device, self._dtype)

    def _decoded(self, data: bytearray, numbers: list[int]) -> Tensor:
        return torch.frombuffer(data, dtype=self._stored).view(len(numbers), -1)

    def _read(self, number: int, row: memoryview) -> None:
        if not 0 <= number < self._shape[0]:
            raise IndexError(f"There is no row {number} of {self._shape[0]}.")
        os.lseek(self._file, self._start + number * self._row_bytes, os.SEEK_SET)
        while row:
            data = os.read(self._file, len(row))
            if not data:
                raise self._changed()
            row[: len(data)] = data
            row = row[len(data) :]

    def _last_written(self) -> tuple[int, int]:
        status = os.fstat(self._file)
        return status.st_size, status.st_mtime_ns

    def _changed(self) -> BrokenWeightsError:
        return BrokenWeightsError(
            f"{self._name} was changed after the model was loaded. Load the model again."
        )
