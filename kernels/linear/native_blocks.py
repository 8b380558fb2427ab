"""Matrices of GGUF blocks for the compiled kernels: blocks are moved into tiles (blocks.h)."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, get_num_threads

from kernels.blocks.grid import grid_codes
from kernels.blocks.types import GGUFType
from kernels.common.memory import Arena
from kernels.linear.blocks import BlockFormat
from kernels.linear.native import NativeMatrix
from kernels.linear.reference import Matrix, QuantisedTensors
from kernels.native.library import Library, address

_COLUMN = 16  # outputs of a tile


class NativeBlockMatrix(NativeMatrix):
    """`tiles` uint8 [columns of sixteen outputs, bytes]."""

    _outputs_of_row = _COLUMN

    def __init__(
        self,
        library: Library,
        held: NativeBlockFormat,
        num_outputs: int,
        tiles: Tensor,
        bias: Tensor | None,
    ) -> None:
        shape = (num_outputs, held.inputs)
        super().__init__(library, "linear_blocks", shape, tiles, None, bias)
        self.format = held.type.id
        self.places = None if held.columns is None else held.columns.to(torch.int32)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        """Through float32, if the inputs are of another type."""
        if inputs.shape[1] != self.shape[1]:
            raise RuntimeError(f"{inputs.shape[1]} inputs for a matrix with {self.shape[1]}")
        found = inputs.new_empty(inputs.shape[0], self.shape[0], dtype=torch.float32)
        if inputs.numel() > 0:
            unbiased = copy(self)
            unbiased.bias = None
            unbiased.into(found, inputs.float())
        return found if self.bias is None else found + self.bias


class NativeBlockFormat(BlockFormat):
    def __init__(
        self,
        library: Library,
        arena: Arena,
        type: GGUFType,
        inputs: int,
        columns: Tensor | None = None,
    ) -> None:
        super().__init__(type, inputs, columns)
        self._library, self._arena = library, arena

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        blocks, grid = kept[0].contiguous(), grid_codes(self.type.name)
        shape = self._shape(blocks.shape[0])
        tiles = self._arena.room(shape[0] * shape[1]).view(shape)
        self._library.tile_blocks(
            address(blocks), None if grid is None else grid.ctypes.data, address(tiles),
            blocks.shape[0], self.inputs, self.type.id,
            get_num_threads(),
        )  # fmt: skip
        return NativeBlockMatrix(self._library, self, blocks.shape[0], tiles, bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        columns, bytes_of_column = self._shape(shape[0])
        return columns * bytes_of_column

    def _shape(self, num_outputs: int) -> tuple[int, int]:
        return -(-num_outputs // _COLUMN), self._library.column_bytes(self.type.id, self.inputs)
