"""Matrices of GGUF blocks on an NVIDIA GPU.

Q4_K, Q6_K and Q8_0 stay blocks, their fields separated so that each is aligned. Blocks of other
types are dequantised when they are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from kernels.blocks.types import GGUFType, dequantise
from kernels.linear.blocks import BlockFormat
from kernels.linear.gpu import GroupWeight
from kernels.linear.gpu_formats import GpuMatrix, Trial, are_right
from kernels.linear.reference import Matrix, PlainMatrix, QuantisedTensors

# The bytes of a block in a `GroupWeight`, and where float16 numbers are in one of a file.
_BYTES = {GGUFType.Q4_K: 148, GGUFType.Q6_K: 210, GGUFType.Q8_0: 34}
_NUMBERS = {GGUFType.Q4_K: (0, 2), GGUFType.Q6_K: (208,), GGUFType.Q8_0: (0,)}
_FLOATS = 2**20  # numbers dequantised at a time


class GpuBlockFormat(BlockFormat):
    """Blocks for kernels; without `kernels` and for other types, floats of type `dtype`."""

    def __init__(
        self,
        dtype: torch.dtype,
        kernels: bool,
        type: GGUFType,
        inputs: int,
        columns: Tensor | None = None,
    ) -> None:
        super().__init__(type, inputs, columns)
        self._dtype, self._stays = dtype, kernels and type in _BYTES

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (rows,) = kept
        if not self._stays:
            return PlainMatrix(self._floats(rows), bias)
        columns = None if self.columns is None else self.columns.to(rows.device)
        return GpuMatrix(pack_blocks(self.type, rows), bias, columns)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        if not self._stays:
            return shape[0] * self.inputs * self._dtype.itemsize
        return shape[0] * self.inputs // self.type.block_values * _BYTES[self.type]

    def _floats(self, rows: Tensor) -> Tensor:
        """The weight, its columns in the order of the inputs."""
        size = rows.shape[0], self.inputs
        weight = torch.empty(size, dtype=self._dtype, device=rows.device)
        order = torch.arange(self.inputs) if self.columns is None else self.columns
        step = max(1, _FLOATS // self.inputs)
        for start in range(0, rows.shape[0], step):
            strip = slice(start, start + step)
            values = torch.from_numpy(dequantise(self.type, rows[strip].cpu().numpy()))
            weight[strip, order.to(rows.device)] = values.to(rows.device, self._dtype)
        return weight


def pack_blocks(type: GGUFType, rows: Tensor) -> GroupWeight:
    """Separate the fields of blocks, uint8 [outputs, row bytes]; no bit is lost."""
    outputs = rows.shape[0]
    blocks = rows.view(outputs, -1, type.block_bytes)
    shape = outputs, blocks.shape[1] * type.block_values

    def field(start: int, end: int, dtype: torch.dtype = torch.uint8) -> Tensor:
        return blocks[:, :, start:end].contiguous().view(dtype).flatten(1)

    if type is GGUFType.Q4_K:
        tensors = field(16, 144), _six_bit_scales(blocks[:, :, 4:16]), field(0, 4, torch.float16)
    elif type is GGUFType.Q6_K:
        tensors = field(0, 192), field(192, 208, torch.int8), field(208, 210, torch.float16)
    else:
        return GroupWeight(type.name, shape, (field(2, 34, torch.int8), field(0, 2, torch.float16)))
    return GroupWeight(type.name, shape, tensors)


def _six_bit_scales(packed: Tensor) -> Tensor:
    """12 bytes a block -> scale and minimum of each group, [outputs, groups * 2]."""
    first, second, last = packed.split(4, dim=2)
    scales = torch.cat((first & 63, last & 15 | first >> 2 & 48), dim=2)
    minima = torch.cat((second & 63, last >> 4 | second >> 2 & 48), dim=2)
    return torch.stack((scales, minima), dim=3).flatten(1)


@cache
def multiplies_blocks(device: torch.device) -> bool:
    """True if products with blocks compile on `device` and are right; if not, the log says why."""
    return are_right(_trials(device), device, "GGUF blocks are dequantised on load on this GPU")


def _trials(device: torch.device) -> Iterator[Trial]:
    generator = torch.Generator().manual_seed(0)
    for type, numbers in _NUMBERS.items():
        blocks = torch.randint(0, 256, (37, 3, 256), dtype=torch.uint8, generator=generator)
        inputs = 3 * type.block_values
        blocks = blocks[:, :, : type.block_bytes].contiguous()
        for place in numbers:
            blocks[:, :, place + 1] = 0x20  # a float16 of about a hundredth
        rows = blocks.flatten(1).to(device)
        held = GpuBlockFormat(torch.bfloat16, True, type, inputs)
        plain = BlockFormat(type, inputs)
        yield type.name, held.prepack((rows,), None), plain.prepack((rows,), None), inputs
