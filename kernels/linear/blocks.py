"""Matrices that stay blocks of a GGUF file, in plain torch: dequantised at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType, dequantise
from kernels.common.memory import room
from kernels.linear.reference import Matrix, QuantisedTensors

_FLOATS = 2**20  # numbers turned into floats at a time


class StoredRows:
    """Rows of blocks, uint8 [rows, row bytes], read when they are needed.

    `fill(start, target)` reads rows from `start` on into a contiguous tensor.
    """

    def __init__(self, shape: tuple[int, int], fill: Callable[[int, Tensor], None]) -> None:
        self.shape, self._fill = shape, fill

    @classmethod
    def of(cls, rows: Tensor) -> StoredRows:
        def fill(start: int, target: Tensor) -> None:
            target.copy_(rows[start : start + len(target)])

        return cls((rows.shape[0], rows.shape[1]), fill)

    def fill(self, start: int, target: Tensor) -> None:
        self._fill(start, target)

    def tensor(self) -> Tensor:
        rows = room(self.shape, torch.uint8, torch.device("cpu"))
        self.fill(0, rows)
        return rows

    def in_order(self, order: Tensor) -> StoredRows:
        """Row i is row `order`[i]; all are read as soon as one is needed."""
        read: list[Tensor] = []

        def fill(start: int, target: Tensor) -> None:
            if not read:
                read.append(self.tensor()[order])
            target.copy_(read[0][start : start + len(target)])

        return StoredRows((len(order), self.shape[1]), fill)

    def split(self, count: int) -> list[StoredRows]:
        def part(first: int) -> StoredRows:
            rows = min(count, self.shape[0] - first)
            return StoredRows(
                (rows, self.shape[1]), lambda start, target: self.fill(first + start, target)
            )

        return [part(first) for first in range(0, self.shape[0], count)]


class BlockFormat:
    """Weights [outputs, inputs] as rows of blocks of one type.

    The stored form is one tensor, uint8 [outputs, row bytes]. With `columns`, int64 [inputs], the
    matrix multiplies `given[:, columns]`: number i of each stored row belongs to column
    `columns[i]` of the rows that it is given.
    """

    is_plain = False
    quantises = False

    def __init__(self, type: GGUFType, inputs: int, columns: Tensor | None = None) -> None:
        assert inputs % type.block_values == 0
        self.type, self.inputs, self.columns = type, inputs, columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockFormat):
            return NotImplemented
        alike = (self.type, self.inputs) == (other.type, other.inputs)
        if self.columns is None or other.columns is None:
            return alike and self.columns is other.columns
        return alike and torch.equal(self.columns, other.columns)

    def __hash__(self) -> int:
        return hash((self.type, self.inputs))

    @property
    def row_bytes(self) -> int:
        return self.inputs // self.type.block_values * self.type.block_bytes

    def pack_rows(
        self, parts: Sequence[StoredRows], bias: Tensor | None, device: torch.device
    ) -> Matrix:
        """The matrix of `parts`, one below the other."""
        rows = torch.cat([each.tensor() for each in parts])
        return self.prepack((rows.to(device),), bias)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (rows,) = kept
        return DequantisingBlockMatrix(self, rows, bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return shape[0] * self.row_bytes


class DequantisingBlockMatrix(Matrix):
    """Dequantises to the type of its inputs, a strip of outputs at a time."""

    def __init__(self, format: BlockFormat, rows: Tensor, bias: Tensor | None) -> None:
        self._type, self._rows, self._bias = format.type, rows.cpu(), bias
        self._columns, self._step = format.columns, max(1, _FLOATS // format.inputs)
        self.num_bytes = rows.nbytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._columns is not None:
            inputs = inputs[:, self._columns.to(inputs.device)]
        result = inputs.new_empty(inputs.shape[0], self._rows.shape[0])
        for start in range(0, self._rows.shape[0], self._step):
            strip = slice(start, start + self._step)
            weight = torch.from_numpy(dequantise(self._type, self._rows[strip].numpy()))
            bias = None if self._bias is None else self._bias[strip]
            result[:, strip] = F.linear(inputs, weight.to(inputs.device, inputs.dtype), bias)
        return result
