"""Matrices that stay blocks of a GGUF file, in plain torch: dequantised at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType, dequantise
from kernels.common.memory import room
from kernels.linear.reference import Matrix, QuantisedTensors, bytes_of

_FLOATS = 2**20  # numbers turned into floats at a time


class StoredRows:
    """Rows of blocks, uint8 [rows, row bytes], read when they are needed.

    `fill(start, target)` reads rows from `start` on into a contiguous tensor. Rows have factors if
    there are `scales`, float32 [rows].
    """

    def __init__(
        self,
        shape: tuple[int, int],
        fill: Callable[[int, Tensor], None],
        scales: Tensor | None = None,
    ) -> None:
        self.shape, self._fill, self.scales = shape, fill, scales

    @classmethod
    def of(cls, rows: Tensor, scales: Tensor | None = None) -> StoredRows:
        def fill(start: int, target: Tensor) -> None:
            target.copy_(rows[start : start + len(target)])

        return cls((rows.shape[0], rows.shape[1]), fill, scales)

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

        scales = None if self.scales is None else self.scales[order]
        return StoredRows((len(order), self.shape[1]), fill, scales)

    def split(self, count: int) -> list[StoredRows]:
        def part(first: int) -> StoredRows:
            rows = min(count, self.shape[0] - first)
            scales = None if self.scales is None else self.scales[first : first + rows]
            return StoredRows(
                (rows, self.shape[1]),
                lambda start, target: self.fill(first + start, target),
                scales,
            )

        return [part(first) for first in range(0, self.shape[0], count)]


def joined_scales(parts: Sequence[StoredRows]) -> Tensor | None:
    if all(part.scales is None for part in parts):
        return None
    return torch.cat(
        [torch.ones(part.shape[0]) if part.scales is None else part.scales for part in parts]
    )


class BlockFormat:
    """Weights [outputs, inputs] as rows of blocks of one type.

    The stored form is uint8 [outputs, row bytes], and factors of rows, if there are any, float32
    [outputs]. With `columns`, int64 [inputs], the matrix multiplies `given[:, columns]`.
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
        rows, scales = torch.cat([each.tensor() for each in parts]), joined_scales(parts)
        kept = (rows,) if scales is None else (rows, scales)
        return self.prepack(tuple(each.to(device) for each in kept), bias)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        return DequantisingBlockMatrix(self, kept, bias)

    def floats(self, kept: QuantisedTensors, rows: slice) -> Tensor:
        """The values of some rows, float32 [rows, inputs], on the CPU."""
        blocks, *scales = (each[rows].cpu() for each in kept)
        values = torch.from_numpy(dequantise(self.type, blocks.numpy()))
        return values.mul_(scales[0][:, None]) if scales else values

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return shape[0] * self.row_bytes


class DequantisingBlockMatrix(Matrix):
    """A strip of outputs at a time, in the type of the inputs."""

    def __init__(self, format: BlockFormat, kept: QuantisedTensors, bias: Tensor | None) -> None:
        self._format, self._kept, self._bias = format, tuple(each.cpu() for each in kept), bias
        self._step = max(1, _FLOATS // format.inputs)
        self.num_bytes = bytes_of(*kept, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._format.columns is not None:
            inputs = inputs[:, self._format.columns.to(inputs.device)]
        num_outputs = self._kept[0].shape[0]
        result = inputs.new_empty(inputs.shape[0], num_outputs)
        for start in range(0, num_outputs, self._step):
            strip = slice(start, start + self._step)
            weight = self._format.floats(self._kept, strip)
            bias = None if self._bias is None else self._bias[strip]
            result[:, strip] = F.linear(inputs, weight.to(inputs.device, inputs.dtype), bias)
        return result
