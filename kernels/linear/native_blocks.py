"""Matrices of GGUF blocks for the compiled kernels: blocks are moved into tiles (blocks.h)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, get_num_threads

from kernels.blocks.grid import grid_codes
from kernels.blocks.types import GGUFType
from kernels.common.memory import Arena, FileArena
from kernels.linear.blocks import BlockFormat, StoredRows
from kernels.linear.native import NativeMatrix
from kernels.linear.reference import Matrix, QuantisedTensors
from kernels.native.library import Library, address

_COLUMN = 16  # outputs of a tile
_BLOCK = 256  # inputs of a tile
_PIECE_BYTES = 2**20  # of rows that are read and tiled at a time
_CPU = torch.device("cpu")


class _Layout:
    """Sizes of a tile, as linear/blocks.h has them."""

    def __init__(
        self, bits: int, group: int = 32, *, integers: bool = False, offsets: bool = False
    ) -> None:
        codes, groups = _COLUMN * _BLOCK * bits // 8, _BLOCK // group
        numbers = groups * _COLUMN + 2 * _COLUMN if integers else groups * 2 * _COLUMN
        self.num_bytes = -(-(codes + numbers * (1 + offsets)) // 64) * 64


LAYOUTS = {
    GGUFType.Q4_0: _Layout(4),
    GGUFType.Q4_1: _Layout(4, offsets=True),
    GGUFType.Q5_0: _Layout(5),
    GGUFType.Q5_1: _Layout(5, offsets=True),
    GGUFType.Q8_0: _Layout(8),
    GGUFType.Q2_K: _Layout(4, 16, integers=True, offsets=True),
    GGUFType.Q3_K: _Layout(4, 16, integers=True),
    GGUFType.Q4_K: _Layout(4, integers=True, offsets=True),
    GGUFType.Q5_K: _Layout(5, integers=True, offsets=True),
    GGUFType.Q6_K: _Layout(6, 16, integers=True),
    GGUFType.IQ2_XXS: _Layout(4, integers=True),
    GGUFType.IQ2_XS: _Layout(4, 16, integers=True),
    GGUFType.IQ3_XXS: _Layout(4, integers=True),
    GGUFType.IQ1_S: _Layout(4, integers=True),
    GGUFType.IQ4_NL: _Layout(4),
    GGUFType.IQ3_S: _Layout(4, integers=True),
    GGUFType.IQ2_S: _Layout(4, 16, integers=True),
    GGUFType.IQ4_XS: _Layout(4, integers=True),
    GGUFType.IQ1_M: _Layout(4, 16, integers=True),
    GGUFType.TQ1_0: _Layout(4, integers=True),
    GGUFType.TQ2_0: _Layout(4, integers=True),
    GGUFType.MXFP4: _Layout(4),
    GGUFType.NVFP4: _Layout(4, 16),
}


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
        return self.pack_rows([StoredRows.of(kept[0])], bias, _CPU)

    def pack_rows(
        self, parts: Sequence[StoredRows], bias: Tensor | None, device: torch.device
    ) -> Matrix:
        """Rows go through a buffer that stays in a processor's cache."""
        if not self._arena.filled and any(part.shape[0] % _COLUMN for part in parts[:-1]):
            parts = [StoredRows.of(torch.cat([part.tensor() for part in parts]))]
        num_outputs = sum(part.shape[0] for part in parts)
        shape = self._shape(num_outputs)
        tiles = self._arena.room(shape[0] * shape[1]).view(shape)
        column = 0
        for part in () if self._arena.filled else parts:
            self._tile(part, tiles[column:])
            column += part.shape[0] // _COLUMN
        matrix = NativeBlockMatrix(self._library, self, num_outputs, tiles, bias)
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
        blocks = -(-self.inputs // _BLOCK)
        return -(-num_outputs // _COLUMN), blocks * LAYOUTS[self.type].num_bytes


@dataclass(frozen=True, slots=True)
class NativeBlockFormats:
    """Makes the formats of matrices whose tiles are in one arena."""

    library: Library
    arena: Arena | FileArena = field(default_factory=Arena)

    def __call__(self, type: GGUFType, inputs: int, columns: Tensor | None) -> NativeBlockFormat:
        return NativeBlockFormat(self.library, self.arena, type, inputs, columns)
