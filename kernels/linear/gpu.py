"""y = x W^T with W of integers or GGUF blocks in Triton, for 1 to 16 rows; and dequantising W.

Integers up to 127 are exact in bfloat16, so tensor cores multiply them, and the scale is applied to
the sum. With more rows the caller dequantises.

In 4-bit layouts two neighbouring groups of a row share bytes: byte j of a pair holds number j of
the even group in its low half and of the odd group in its high half, so both halves of a tile are
contiguous inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from kernels.common.memory import dense_rows
from kernels.linear.gpu_parts import (
    KINDS,
    constants,
    grouped_product,
    part_codes,
    part_group,
    part_scales,
    share_of,
    step_bytes,
)
from kernels.linear.int4 import GROUP, in_whole_groups, unhalve

MAX_ROWS = 16  # what a tensor core multiplies at once; with more, dequantising pays
_OUTPUTS = 16  # of one program: the fewest that a dot takes, and so the most programs
_INPUTS = 256  # of one step over 8-bit weights
# A program waits for memory most of the time: an H200 holds about so many, and one of fewer steps
# than these gains nothing.
_PROGRAMS, _FEWEST_STEPS = 4096, 4
_ADDED = 256  # sums of a program that adds up shares
_SCALED = 2048  # numbers of a program that scales rows of integers
_STEPS = 8  # of a program that dequantises groups


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """w = values * scale: [num_outputs, num_inputs] int8 and [num_outputs] float32."""

    values: Tensor
    scale: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def num_bytes(self) -> int:
        return self.values.nbytes + self.scale.nbytes

    def aligned(self, inputs: Tensor) -> Tensor:
        return inputs

    def times(self, inputs: Tensor) -> Tensor:
        return int8_linear(inputs, self)

    def floats(self, outputs: slice, dtype: torch.dtype) -> Tensor:
        values, scale = self.values[outputs], self.scale[outputs]
        room = torch.empty(values.shape, dtype=dtype, device=values.device)
        rows, width = values.shape
        _scale_rows[(rows, triton.cdiv(width, _SCALED))](values, scale, room, width, BLOCK=_SCALED)
        return room


@dataclass(frozen=True, slots=True)
class GroupWeight:
    """w = code * scale + offset, [num_outputs, num_inputs], in groups of `KINDS`[`kind`].

    `tensors` have the outputs in front: codes [.., bytes]; scales; and where scales are integers,
    their float16 factors for each block. int4: uint8 [.., ceil(groups / 2), GROUP], and bfloat16
    [.., groups, 2], scale and offset. Q4_K: uint8 [.., groups / 2, 32], uint8 [.., groups, 2], and
    [.., blocks, 2]. Q6_K: uint8 [.., blocks, 192], int8 [.., groups], and [.., blocks]. Q8_0: int8
    [.., groups, 32], and float16 [.., groups].
    """

    kind: str
    shape: tuple[int, int]
    tensors: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return sum(each.nbytes for each in self.tensors)

    def aligned(self, inputs: Tensor) -> Tensor:
        return in_whole_groups(inputs)

    def times(self, inputs: Tensor) -> Tensor:
        return group_linear(inputs, self)

    def floats(self, outputs: slice, dtype: torch.dtype) -> Tensor:
        tensors = tuple(each[outputs] for each in self.tensors)
        shape = tensors[0].shape[0], self.shape[1]
        return dequantise(GroupWeight(self.kind, shape, tensors), dtype)


def pack_int4(halves: Tensor, scales: Tensor) -> GroupWeight:
    """Lay out what `Int4Format.keep` gave of a weight (kernels.linear.int4)."""
    codes = unhalve(halves)
    groups = codes.shape[1] // GROUP
    by_pair = F.pad(codes, (0, GROUP if groups % 2 else 0)).view(codes.shape[0], -1, 2, GROUP)
    pairs = by_pair[:, :, 0] | by_pair[:, :, 1] << 4
    return GroupWeight("int4", (codes.shape[0], codes.shape[1]), (pairs, scales.contiguous()))


def int8_linear(inputs: Tensor, weight: Int8Weight) -> Tensor:
    """[n, num_inputs] -> [n, num_outputs]; raises ValueError if n > 16."""
    assert weight.values.is_contiguous() and weight.scale.is_contiguous()
    tiles, shares = _grid(inputs, weight.shape, _INPUTS)
    sums = _sums(inputs, weight.shape, shares)
    _int8_linear[(tiles, shares)](
        inputs, weight.values, weight.scale, sums, inputs.shape[0], *weight.shape,
        inputs.stride(0),
        ROWS=MAX_ROWS, OUTPUTS=_OUTPUTS, INPUTS=_INPUTS, num_warps=2,
        num_stages=1 if inputs.dtype == torch.float32 else 4,
    )  # fmt: skip
    return _added(sums, inputs.dtype)


def group_linear(inputs: Tensor, weight: GroupWeight) -> Tensor:
    assert all(each.is_contiguous() for each in weight.tensors)
    tiles, shares = _grid(inputs, weight.shape, KINDS[weight.kind].step)
    sums = _sums(inputs, weight.shape, shares)
    _group_linear[(tiles, shares)](
        inputs, *weight.tensors[:2], weight.tensors[-1], sums, inputs.shape[0], *weight.shape,
        inputs.stride(0),
        ROWS=MAX_ROWS, OUTPUTS=_OUTPUTS, **constants(weight.kind), num_warps=2,
        num_stages=1 if inputs.dtype == torch.float32 else 4,
    )  # fmt: skip
    return _added(sums, inputs.dtype)


def dequantise(weight: GroupWeight, dtype: torch.dtype) -> Tensor:
    """[num_outputs, num_inputs] in `dtype`, without other temporaries."""
    num_outputs, num_inputs = weight.shape
    outputs = torch.empty(weight.shape, dtype=dtype, device=weight.tensors[0].device)
    steps = triton.cdiv(num_inputs, KINDS[weight.kind].step)
    _dequantise[(triton.cdiv(num_outputs, _OUTPUTS), triton.cdiv(steps, _STEPS))](
        *weight.tensors[:2], weight.tensors[-1], outputs, num_outputs, num_inputs,
        OUTPUTS=_OUTPUTS, STEPS=_STEPS, **constants(weight.kind),
    )  # fmt: skip
    return outputs


def _grid(inputs: Tensor, shape: tuple[int, int], step: int) -> tuple[int, int]:
    """Tiles of outputs, and shares of a row's inputs: the weight's shape alone decides.

    Raises ValueError for more rows than a program takes.
    """
    if inputs.shape[0] > MAX_ROWS:
        raise ValueError(f"up to {MAX_ROWS} rows at once, not {inputs.shape[0]}")
    assert dense_rows(inputs) and inputs.shape[1] == shape[1]
    tiles = triton.cdiv(shape[0], _OUTPUTS)
    return tiles, max(1, min(_PROGRAMS // tiles, triton.cdiv(shape[1], step) // _FEWEST_STEPS))


def _sums(inputs: Tensor, shape: tuple[int, int], shares: int) -> Tensor:
    """Room for the sums of each share: [shares, n, num_outputs]; one share is the result."""
    dtype = inputs.dtype if shares == 1 else torch.float32
    return torch.empty(shares, inputs.shape[0], shape[0], dtype=dtype, device=inputs.device)


def _added(sums: Tensor, dtype: torch.dtype) -> Tensor:
    shares, *shape = sums.shape
    if shares == 1:
        return sums[0]
    outputs = torch.empty(shape, dtype=dtype, device=sums.device)
    _add_shares[(triton.cdiv(outputs.numel(), _ADDED),)](
        sums, outputs, outputs.numel(), SHARES=shares, BLOCK=_ADDED
    )
    return outputs


@triton.jit(do_not_specialize=["num_rows"])
def _int8_linear(
    inputs: tl.tensor,
    weight: tl.tensor,
    scale: tl.tensor,
    sums: tl.tensor,
    num_rows: int,
    num_outputs: int,
    num_inputs: int,
    stride: int,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
) -> None:
    row = tl.arange(0, ROWS)[:, None]
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    line = weight + output.to(tl.int64)[:, None] * num_inputs
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    begin, end = share_of(tl.cdiv(num_inputs, INPUTS))
    for step in range(begin, end):
        column = step * INPUTS + tl.arange(0, INPUTS)[None, :]
        inside = column < num_inputs
        left = tl.load(inputs + row * stride + column, (row < num_rows) & inside, 0.0)
        right = tl.load(line + column, (output < num_outputs)[:, None] & inside, 0)
        total = tl.dot(left, tl.trans(right.to(left.dtype)), total, input_precision="ieee")
    total *= tl.load(scale + output, output < num_outputs, 0.0)[None, :]
    _put(sums, total, row, output, num_rows, num_outputs)


@triton.jit(do_not_specialize=["num_rows"])
def _group_linear(
    inputs: tl.tensor,
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    sums: tl.tensor,
    num_rows: int,
    num_outputs: int,
    num_inputs: int,
    stride: int,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    row = tl.arange(0, ROWS)[:, None]
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    total = grouped_product(
        inputs + row * stride, row < num_rows, codes, scales, factors, output, num_outputs,
        num_inputs, num_inputs, True, ROWS, OUTPUTS, KIND, GROUP, PARTS, OFFSETS,
    )  # fmt: skip
    _put(sums, total, row, output, num_rows, num_outputs)


@triton.jit
def _put(
    sums: tl.tensor,
    total: tl.tensor,
    row: tl.tensor,
    output: tl.tensor,
    num_rows: int,
    num_outputs: int,
) -> None:
    first = tl.program_id(1).to(tl.int64) * num_rows * num_outputs
    valid = (row < num_rows) & (output < num_outputs)[None, :]
    there = sums + first + row * num_outputs + output[None, :]
    tl.store(there, total.to(sums.dtype.element_ty), valid)


@triton.jit(do_not_specialize=["count"])
def _add_shares(
    sums: tl.tensor, outputs: tl.tensor, count: int, SHARES: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sums + place, place < count, 0.0)
    for share in tl.static_range(1, SHARES):
        total += tl.load(sums + share * count + place, place < count, 0.0)
    tl.store(outputs + place, total.to(outputs.dtype.element_ty), place < count)


@triton.jit
def _scale_rows(
    values: tl.tensor, scale: tl.tensor, outputs: tl.tensor, width: int, BLOCK: tl.constexpr
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(values + row * width + column, column < width, 0).to(tl.float32)
    result = (number * tl.load(scale + row)).to(outputs.dtype.element_ty)
    tl.store(outputs + row * width + column, result, column < width)


@triton.jit
def _dequantise(
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    outputs: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    OUTPUTS: tl.constexpr,
    STEPS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    """Programs (outputs, steps)."""
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    line, known, groups = output.to(tl.int64), output < num_outputs, num_inputs // GROUP
    steps = (groups + PARTS - 1) // PARTS
    begin = tl.program_id(1) * STEPS
    for step in range(begin, tl.minimum(begin + STEPS, steps)):
        first, second, high = step_bytes(codes, line, known, step, steps, KIND, GROUP)
        for part in tl.static_range(PARTS):
            group = part_group(step, part, KIND)
            scale, offset = part_scales(scales, factors, line, known, group, groups, KIND)
            result = part_codes(first, second, high, part, KIND) * scale[:, None]
            if OFFSETS:
                result += offset[:, None]
            column = group * GROUP + tl.arange(0, GROUP)[None, :]
            there = outputs + line[:, None] * num_inputs + column
            valid = known[:, None] & (column < num_inputs)
            tl.store(there, result.to(outputs.dtype.element_ty), valid)
