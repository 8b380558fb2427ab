"""GGUF blocks for the compiled kernels: blocks are moved into tiles (blocks.h)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, get_num_threads

from kernels.blocks.grid import grid_codes
from kernels.blocks.types import GGUFType
from kernels.common.memory import Arena, FileArena
from kernels.linear.blocks import BlockFormat, StoredRows, joined_scales
from kernels.linear.native import NativeMatrix
from kernels.linear.reference import Matrix, QuantisedTensors
from kernels.native.library import Library, address

_COLUMN = 16  # outputs of a tile
_PIECE_BYTES = 2**20  # of rows that are read and tiled at a time
_CPU = torch.device("cpu")


class NativeBlockMatrix(NativeMatrix):
    """`tiles` uint8 [columns of sixteen outputs, bytes]."""

    _outputs_of_row = _COLUMN

    def __init__(
        self,
        library: Library,
        held: NativeBlockFormat,
        num_outputs: int,
        tiles: Tensor,
        scales: Tensor | None,
        bias: Tensor | None,
    ) -> None:
        shape = (num_outputs, held.inputs)
        super().__init__(library, "blocks", shape, tiles, scales, bias)
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
    """In a `filled` arena the tiles of all matrices are there, in the order of packing."""

    def __init__(
        self,
        library: Library,
        arena: Arena | FileArena,
        type: GGUFType,
        inputs: int,
        columns: Tensor | None = None,
    ) -> None:
        super().__init__(type, inputs, columns)
        self._library, self._arena = library, arena

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        return self.pack_rows([StoredRows.of(*kept)], bias, _CPU)

    def pack_rows(
        self, parts: Sequence[StoredRows], bias: Tensor | None, device: torch.device
    ) -> Matrix:
        """Rows go through a buffer that stays in a processor's cache."""
        scales = joined_scales(parts)
        if not self._arena.filled and any(part.shape[0] % _COLUMN for part in parts[:-1]):
            parts = [StoredRows.of(torch.cat([part.tensor() for part in parts]))]
        num_outputs = sum(part.shape[0] for part in parts)
        shape = self._shape(num_outputs)
        tiles = self._arena.room(shape[0] * shape[1]).view(shape)
        column = 0
        for part in () if self._arena.filled else parts:
            self._tile(part, tiles[column:])
            column += part.shape[0] // _COLUMN
        matrix = NativeBlockMatrix(self._library, self, num_outputs, tiles, scales, bias)
        matrix.mapped = self._arena.filled
        return matrix

    def _tile(self, rows: StoredRows, tiles: Tensor) -> None:
        grid, row_bytes = grid_codes(self.type.name), rows.shape[1]
        step = max(_COLUMN, _PIECE_BYTES // max(1, row_bytes) // _COLUMN * _COLUMN)
        piece = torch.empty(min(step, rows.shape[0]), row_bytes, dtype=torch.uint8)
        for start in range(0, rows.shape[0], step):
            blocks = piece[: rows.shape[0] - start]
            rows.fill(start, blocks)
            self._library.tile_blocks(
                address(blocks), None if grid is None else grid.ctypes.data,
                address(tiles[start // _COLUMN :]), blocks.shape[0], self.inputs, self.type.id,
                get_num_threads(),
            )  # fmt: skip

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        columns, bytes_of_column = self._shape(shape[0])
        return columns * bytes_of_column

    def _shape(self, num_outputs: int) -> tuple[int, int]:
        return -(-num_outputs // _COLUMN), self._library.column_bytes(self.type.id, self.inputs)


@dataclass(frozen=True, slots=True)
class NativeBlockFormats:
    library: Library
    arena: Arena | FileArena = field(default_factory=Arena)

    def __call__(self, type: GGUFType, inputs: int, columns: Tensor | None) -> NativeBlockFormat:
        return NativeBlockFormat(self.library, self.arena, type, inputs, columns)
