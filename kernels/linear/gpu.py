"""y = x W^T with W of integers or GGUF blocks in Triton, for a few rows; and dequantising W.

A program of one warp multiplies one row with one output, so the bits of a row depend on nothing
beside it. With more rows the caller dequantises.

In 4-bit layouts two neighbouring groups share bytes: byte j of a pair holds number j of the even
group in its low half and of the odd group in its high half.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from kernels.common.capability import interpreted
from kernels.common.memory import dense_rows
from kernels.linear.gpu_parts import (
    KINDS,
    byte_codes,
    chunk_bytes,
    chunk_codes,
    constants,
    first_input,
    part_scales,
    row_product,
)
from kernels.linear.int4 import GROUP, in_whole_groups, unhalve
from kernels.linear.reference import bytes_of

MAX_ROWS = 3  # each is multiplied alone; with more, dequantising pays
STEP = {
    "OUTPUTS": 64 if interpreted() else 1,
    "CHUNKS": 32,
    "num_warps": 1,
}  # of 16 bytes: larger steps need too many registers
_FLOATED = 64  # chunks of a program that dequantises


@dataclass(frozen=True, slots=True)
class GroupWeight:
    """w = code * scale + offset, [num_outputs, num_inputs], in groups of `KINDS`[`kind`].

    `tensors` have the outputs in front: codes [.., bytes]; scales; and for integer scales, float16
    factors of each block. int8: int8 [.., groups, 32], and one float32. int4: uint8 [..,
    ceil(groups / 2), 32], and bfloat16 [.., groups, 2], scale and offset. Q4_K: uint8 [.., groups /
    2, 32], uint8 [.., groups, 2], and [.., blocks, 2]. Q6_K: uint8 [.., blocks, 192], int8 [..,
    groups], and [.., blocks]. Q8_0: int8 [.., groups, 32], and float16 [.., groups].
    """

    kind: str
    shape: tuple[int, int]
    tensors: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return bytes_of(*self.tensors)

    def aligned(self, inputs: Tensor) -> Tensor:
        return in_whole_groups(inputs)

    def times(self, inputs: Tensor) -> Tensor:
        return few_rows(inputs, self)

    def floats(self, outputs: slice, dtype: torch.dtype) -> Tensor:
        tensors = tuple(each[outputs] for each in self.tensors)
        shape = tensors[0].shape[0], self.shape[1]
        return dequantise(GroupWeight(self.kind, shape, tensors), dtype)


def pack_int8(values: Tensor, scales: Tensor) -> GroupWeight:
    """int8 [outputs, inputs] and float32 [outputs], in whole groups."""
    codes = in_words(in_whole_groups(values))
    return GroupWeight("int8", (codes.shape[0], codes.shape[1]), (codes, scales.contiguous()))


def pack_int4(halves: Tensor, scales: Tensor) -> GroupWeight:
    """Takes what `Int4Format.quantise` returns."""
    codes = unhalve(halves)
    groups = codes.shape[1] // GROUP
    by_pair = F.pad(codes, (0, GROUP if groups % 2 else 0)).view(codes.shape[0], -1, 2, GROUP)
    pairs = by_pair[:, :, 0] | by_pair[:, :, 1] << 4
    return GroupWeight(
        "int4", (codes.shape[0], codes.shape[1]), (in_words(pairs), scales.contiguous())
    )


def in_words(codes: Tensor) -> Tensor:
    """Byte b of four words is four neighbouring inputs, which a thread loads at once."""
    words: Tensor = codes.unflatten(-1, (-1, 4, 4))
    return words.transpose(-1, -2).reshape(codes.shape)


def few_rows(inputs: Tensor, weight: GroupWeight) -> Tensor:
    """[n, num_inputs] -> [n, num_outputs]; raises ValueError if n > MAX_ROWS."""
    kind, shape, tensors = weight.kind, weight.shape, weight.tensors
    if inputs.shape[0] > MAX_ROWS:
        raise ValueError(f"up to {MAX_ROWS} rows at once, not {inputs.shape[0]}")
    assert dense_rows(inputs) and inputs.shape[1] == shape[1]
    assert all(each.is_contiguous() for each in tensors)
    outputs = torch.empty(inputs.shape[0], shape[0], dtype=inputs.dtype, device=inputs.device)
    _few_rows[(inputs.shape[0] * triton.cdiv(shape[0], STEP["OUTPUTS"]),)](
        inputs, *tensors[:2], tensors[-1], outputs, inputs.shape[0], *shape, inputs.stride(0),
        **STEP, **constants(kind),
    )  # fmt: skip
    return outputs


def dequantise(weight: GroupWeight, dtype: torch.dtype) -> Tensor:
    """[num_outputs, num_inputs] in `dtype`, without other temporaries."""
    num_outputs, num_inputs = weight.shape
    outputs = torch.empty(weight.shape, dtype=dtype, device=weight.tensors[0].device)
    chunks = triton.cdiv(num_inputs, 32 * KINDS[weight.kind].parts) * 2
    at_once = STEP["OUTPUTS"]
    _dequantise[(triton.cdiv(num_outputs, at_once), triton.cdiv(chunks, _FLOATED))](
        *weight.tensors[:2], weight.tensors[-1], outputs, num_outputs, num_inputs,
        OUTPUTS=at_once, CHUNKS=_FLOATED, **constants(weight.kind),
    )  # fmt: skip
    return outputs


@triton.jit(do_not_specialize=["num_rows"])
def _few_rows(
    inputs: tl.tensor,
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    outputs: tl.tensor,
    num_rows: int,
    num_outputs: int,
    num_inputs: int,
    stride: int,
    OUTPUTS: tl.constexpr,
    CHUNKS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    """Programs (outputs, rows): neighbours read the same weights."""
    row = (tl.program_id(0) % num_rows).to(tl.int64)
    output = tl.program_id(0) // num_rows * OUTPUTS + tl.arange(0, OUTPUTS)
    total = row_product(
        inputs + row * stride, codes, scales, factors, output, num_outputs, num_inputs,
        num_inputs, OUTPUTS, CHUNKS, KIND, GROUP, PARTS, OFFSETS,
    )  # fmt: skip
    place = outputs + row * num_outputs + output
    tl.store(place, total.to(outputs.dtype.element_ty), output < num_outputs)


@triton.jit
def _dequantise(
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    outputs: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    OUTPUTS: tl.constexpr,
    CHUNKS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    """Programs (outputs, chunks)."""
    line = (tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)).to(tl.int64)[:, None, None]
    known, groups = line < num_outputs, num_inputs // GROUP
    blocks = tl.cdiv(num_inputs, PARTS * 32)
    chunk = tl.program_id(1) * CHUNKS + tl.arange(0, CHUNKS)[None, :, None]
    words, word = codes.to(tl.pointer_type(tl.uint32)), tl.arange(0, 4)[None, None, :]
    there = known & (chunk < 2 * blocks)
    first, second, high = chunk_codes(words, line, there, chunk, word, blocks, KIND, 4)
    for part in tl.static_range(PARTS):
        at = first_input(chunk, part, PARTS)
        four = chunk_bytes(first, second, high, part, KIND, PARTS)
        group = at // GROUP
        scale, offset = part_scales(
            scales, factors, line, group, groups, known & (group < groups), KIND
        )
        for byte in tl.static_range(4):
            code = byte_codes(four, byte, KIND)
            result = (code / 256 if byte % 2 else code) * scale
            if OFFSETS:
                result += offset
            column = at + 4 * byte + word
            place = outputs + line * num_inputs + column
            tl.store(place, result.to(outputs.dtype.element_ty), known & (column < num_inputs))
