"""Matrices that stay blocks of a GGUF file, in plain torch: dequantised at every call."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType, dequantise
from kernels.linear.reference import Matrix, QuantisedTensors

_FLOATS = 2**20  # numbers turned into floats at a time


class BlockFormat:
    """Weights [outputs, inputs] as rows of blocks of one type.

    The stored form is one tensor, uint8 [outputs, row bytes]: the rows of a file, in the order of
    the outputs. With `columns`, int64 [inputs], the matrix multiplies `given[:, columns]`: number i
    of each stored row belongs to column `columns[i]` of the rows that it is given.
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

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (rows,) = kept
        return DequantisingBlockMatrix(self, rows, bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return shape[0] * self.row_bytes


class DequantisingBlockMatrix(Matrix):
    """A `Matrix` that dequantises to the type of its inputs, a strip of outputs at a time."""

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
