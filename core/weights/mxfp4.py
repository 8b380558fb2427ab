"""Stacks of matrices in MXFP4 (OCP Microscaling Formats, 2023), as gpt-oss's folders have them.

A stack `name` is two tensors: `name`_blocks, uint8 [matrices, outputs, inputs / 32, 16], whose
bytes hold numbers 2i and 2i + 1, and `name`_scales, uint8 [matrices, outputs, inputs / 32], the
exponents. GGUF files have the same numbers in blocks of another order, which the kernels read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingTensorError, WrongShapeError
from core.weights.container import TensorStream
from core.weights.safetensors_file import StoredTensor
from core.weights.table import Table
from kernels.blocks.types import GGUFType, dequantise
from kernels.linear.blocks import StoredRows

METHOD = "mxfp4"
BLOCKS, SCALES = "_blocks", "_scales"
_BYTES = 16  # of a block, without its exponent
_NOT_A_NUMBER = 255
_MOST_BLOCKS = 2**13  # read at a time

# Reads bytes of a tensor of the folder from a place in it on.
Read = Callable[[str, int, memoryview], None]


@dataclass(frozen=True, slots=True)
class Mxfp4Stack:
    name: str
    shape: tuple[int, int, int]

    @property
    def parts(self) -> tuple[str, str]:
        return self.name + BLOCKS, self.name + SCALES

    @property
    def inputs(self) -> int:
        return self.shape[2]

    def rows(self, read: Read) -> StoredRows:
        groups = self.inputs // GGUFType.MXFP4.block_values

        def fill(start: int, target: Tensor) -> None:
            blocks = target.numpy().reshape(-1, GGUFType.MXFP4.block_bytes)
            for at in range(0, len(blocks), _MOST_BLOCKS):
                some = blocks[at : at + _MOST_BLOCKS]
                self._read(read, start * groups + at, some)

        size = math.prod(self.shape[:2]), groups * GGUFType.MXFP4.block_bytes
        return StoredRows(size, fill)

    def _read(self, read: Read, first: int, blocks: npt.NDArray[np.uint8]) -> None:
        count = len(blocks)
        codes, scales = np.empty((count, _BYTES), np.uint8), np.empty(count, np.uint8)
        read(self.name + BLOCKS, first * _BYTES, codes.data.cast("B"))
        read(self.name + SCALES, first, scales.data)
        if (scales == _NOT_A_NUMBER).any():
            raise BrokenWeightsError(f"A scale of {self.name} is not a number.")
        # Number i of GGUF's blocks shares a byte with number i + 16; first each has its own.
        apart = codes.astype("<u2")
        apart |= apart << 4
        apart &= 0x0F0F
        pairs = apart[:, : _BYTES // 2] | apart[:, _BYTES // 2 :] << 4
        blocks[:, 0], blocks[:, 1:] = scales, pairs.view(np.uint8)

    def stream(self, read: Read) -> TensorStream:
        rows, place = self.rows(read), 0

        def fill(target: Tensor) -> None:
            nonlocal place
            wanted = target.view(-1, self.inputs)
            step = max(1, _MOST_BLOCKS * GGUFType.MXFP4.block_values // self.inputs)
            for part in wanted.split(step):
                blocks = torch.empty(len(part), rows.shape[1], dtype=torch.uint8)
                rows.fill(place, blocks)
                part.copy_(torch.from_numpy(dequantise(GGUFType.MXFP4, blocks.numpy())))
                place += len(part)

        def table(dtype: torch.dtype) -> Table:
            raise WrongShapeError(f"{self.name} is no table.")

        return TensorStream(self.name, fill, table, rows)


def find_stacks(
    tensors: Mapping[str, StoredTensor], config: Mapping[str, Any]
) -> Iterator[Mxfp4Stack]:
    """Raises MissingTensorError, WrongShapeError, BrokenWeightsError."""
    scheme = config.get("quantization_config")
    if not isinstance(scheme, dict) or scheme.get("quant_method") != METHOD:
        return
    for name, blocks in tensors.items():
        if not name.endswith(BLOCKS):
            continue
        stack = name.removesuffix(BLOCKS)
        scales = tensors.get(stack + SCALES)
        if scales is None:
            raise MissingTensorError(f"{stack}{SCALES} is in none of the weights files.")
        if stack in tensors:
            raise BrokenWeightsError(f"{stack} is stored twice, once as MXFP4.")
        if {blocks.dtype, scales.dtype} != {"U8"}:
            raise BrokenWeightsError(
                f"{stack} is stored as {blocks.dtype} and {scales.dtype}; MXFP4 has U8 there."
            )
        if blocks.shape != (*scales.shape, _BYTES) or len(blocks.shape) != 4:
            raise WrongShapeError(
                f"{stack} has blocks of {list(blocks.shape)} and scales of {list(scales.shape)}, "
                "which don't fit."
            )
        matrices, outputs, groups = scales.shape
        yield Mxfp4Stack(stack, (matrices, outputs, groups * GGUFType.MXFP4.block_values))
