"""y = x W^T with 8 or 4-bit W in Triton, for 1 to 16 rows; and dequantising W.

Integers up to 127 are exact in bfloat16, so tensor cores multiply them, and the scale is applied to
the sum. A row's bits depend on nothing but the row. With more rows the caller dequantises.

In the 4-bit layout two neighbouring groups of a row share bytes: byte j of a pair holds number j of
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
from kernels.linear.int4 import GROUP, in_whole_groups, unhalve

MAX_ROWS = 16  # what a tensor core multiplies at once; with more, dequantising pays
_OUTPUTS = 16  # of one program: the fewest that a dot takes, and so the most programs
_INPUTS = 256  # of one step over 8-bit weights
_ZERO_POINT = 8  # the number of 4 bits that stands for a group's zero point


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
        values, scale = self.values[outputs], self.scale[outputs, None]
        room = torch.empty(values.shape, dtype=dtype, device=values.device)
        return torch.mul(values, scale, out=room)


@dataclass(frozen=True, slots=True)
class Int4Weight:
    """w = (q - 8) * scale + offset, [num_outputs, num_inputs].

    `pairs` [num_outputs, ceil(groups / 2), GROUP] uint8; `scales` [num_outputs, groups, 2]
    bfloat16: scale and offset of each group.
    """

    pairs: Tensor
    scales: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.scales.shape[0], self.scales.shape[1] * GROUP

    @property
    def num_bytes(self) -> int:
        return self.pairs.nbytes + self.scales.nbytes

    def aligned(self, inputs: Tensor) -> Tensor:
        """Rows padded with zeros to whole groups."""
        return in_whole_groups(inputs)

    def times(self, inputs: Tensor) -> Tensor:
        return int4_linear(inputs, self)

    def floats(self, outputs: slice, dtype: torch.dtype) -> Tensor:
        return dequantise_int4(Int4Weight(self.pairs[outputs], self.scales[outputs]), dtype)


def pack_int4(halves: Tensor, scales: Tensor) -> Int4Weight:
    """Lay out what `Int4Format.keep` gave of a weight (kernels.linear.int4)."""
    codes = unhalve(halves)
    groups = codes.shape[1] // GROUP
    by_pair = F.pad(codes, (0, GROUP if groups % 2 else 0)).view(codes.shape[0], -1, 2, GROUP)
    pairs = by_pair[:, :, 0] | by_pair[:, :, 1] << 4
    return Int4Weight(pairs.contiguous(), scales.contiguous())


def int8_linear(inputs: Tensor, weight: Int8Weight) -> Tensor:
    """[n, num_inputs] -> [n, num_outputs] in the type of `inputs`; raises ValueError if n > 16."""
    assert weight.values.is_contiguous() and weight.scale.is_contiguous()
    outputs = _outputs(inputs, weight.shape)
    _int8_linear[(triton.cdiv(weight.shape[0], _OUTPUTS),)](
        inputs,
        weight.values,
        weight.scale,
        outputs,
        inputs.shape[0],
        *weight.shape,
        inputs.stride(0),
        ROWS=MAX_ROWS,
        OUTPUTS=_OUTPUTS,
        INPUTS=_INPUTS,
        num_warps=2,
        num_stages=1 if inputs.dtype == torch.float32 else 4,
    )
    return outputs


def int4_linear(inputs: Tensor, weight: Int4Weight) -> Tensor:
    outputs = _outputs(inputs, weight.shape)
    _int4_linear[(triton.cdiv(weight.shape[0], _OUTPUTS),)](
        inputs,
        weight.pairs,
        weight.scales,
        outputs,
        inputs.shape[0],
        *weight.shape,
        inputs.stride(0),
        ROWS=MAX_ROWS,
        OUTPUTS=_OUTPUTS,
        GROUP=GROUP,
        ZERO_POINT=_ZERO_POINT,
        num_warps=2,
        num_stages=1 if inputs.dtype == torch.float32 else 4,
    )
    return outputs


def dequantise_int4(weight: Int4Weight, dtype: torch.dtype) -> Tensor:
    """The weight [num_outputs, num_inputs] in `dtype`, without other temporaries."""
    num_outputs, num_inputs = weight.shape
    outputs = torch.empty(weight.shape, dtype=dtype, device=weight.pairs.device)
    _dequantise_int4[(triton.cdiv(num_outputs, _OUTPUTS), weight.pairs.shape[1])](
        weight.pairs,
        weight.scales,
        outputs,
        num_outputs,
        num_inputs,
        OUTPUTS=_OUTPUTS,
        GROUP=GROUP,
        ZERO_POINT=_ZERO_POINT,
    )
    return outputs


def _outputs(inputs: Tensor, shape: tuple[int, ...]) -> Tensor:
    if inputs.shape[0] > MAX_ROWS:
        raise ValueError(f"up to {MAX_ROWS} rows at once, not {inputs.shape[0]}")
    assert dense_rows(inputs) and inputs.shape[1] == shape[1]
    size = inputs.shape[0], shape[0]
    return torch.empty(size, dtype=inputs.dtype, device=inputs.device)


@triton.jit(do_not_specialize=["num_rows"])
def _int8_linear(
    inputs: tl.tensor,
    weight: tl.tensor,
    scale: tl.tensor,
    outputs: tl.tensor,
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
    for at in range(0, num_inputs, INPUTS):
        column = at + tl.arange(0, INPUTS)[None, :]
        inside = column < num_inputs
        left = tl.load(inputs + row * stride + column, (row < num_rows) & inside, 0.0)
        right = tl.load(line + column, (output < num_outputs)[:, None] & inside, 0)
        total = tl.dot(left, tl.trans(right.to(left.dtype)), total, input_precision="ieee")
    total *= tl.load(scale + output, output < num_outputs, 0.0)[None, :]
    there = outputs + row * num_outputs + output[None, :]
    valid = (row < num_rows) & (output < num_outputs)[None, :]
    tl.store(there, total.to(outputs.dtype.element_ty), valid)


@triton.jit
def _group(
    codes: tl.tensor,
    scales: tl.tensor,
    output: tl.tensor,
    num_outputs: int,
    group: tl.tensor,
    groups: tl.tensor,
    ZERO_POINT: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """`codes` [OUTPUTS, GROUP] around zero; their scales and offsets [OUTPUTS]."""
    valid = (output < num_outputs) & (group < groups)
    place = scales + 2 * (output.to(tl.int64) * groups + group)
    scale = tl.load(place, valid, 0.0).to(tl.float32)
    return codes.to(tl.float32) - ZERO_POINT, scale, tl.load(place + 1, valid, 0.0).to(tl.float32)


@triton.jit(do_not_specialize=["num_rows"])
def _int4_linear(
    inputs: tl.tensor,
    pairs: tl.tensor,
    scales: tl.tensor,
    outputs: tl.tensor,
    num_rows: int,
    num_outputs: int,
    num_inputs: int,
    stride: int,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    ZERO_POINT: tl.constexpr,
) -> None:
    row = tl.arange(0, ROWS)[:, None]
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    place = tl.arange(0, GROUP)[None, :]
    groups = num_inputs // GROUP
    num_pairs = (groups + 1) // 2
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for pair in range(num_pairs):
        line = pairs + (output.to(tl.int64)[:, None] * num_pairs + pair) * GROUP
        both = tl.load(line + place, (output < num_outputs)[:, None], 0)
        for half in tl.static_range(2):
            group = 2 * pair + half
            column = group * GROUP + place
            inside = (row < num_rows) & (column < num_inputs)
            left = tl.load(inputs + row * stride + column, inside, 0.0)
            codes = (both >> (4 * half)) & 15
            numbers, scale, offset = _group(
                codes, scales, output, num_outputs, group, groups, ZERO_POINT
            )
            right = tl.trans(numbers.to(left.dtype))
            total += tl.dot(left, right, input_precision="ieee") * scale[None, :]
            total += tl.sum(left.to(tl.float32), 1)[:, None] * offset[None, :]
    there = outputs + row * num_outputs + output[None, :]
    valid = (row < num_rows) & (output < num_outputs)[None, :]
    tl.store(there, total.to(outputs.dtype.element_ty), valid)


@triton.jit
def _dequantise_int4(
    pairs: tl.tensor,
    scales: tl.tensor,
    outputs: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    ZERO_POINT: tl.constexpr,
) -> None:
    """Programs (outputs, pair of groups)."""
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    pair = tl.program_id(1)
    place = tl.arange(0, GROUP)[None, :]
    wide = output.to(tl.int64)[:, None]
    known = (output < num_outputs)[:, None]
    groups = num_inputs // GROUP
    both = tl.load(pairs + (wide * tl.num_programs(1) + pair) * GROUP + place, known, 0)
    for half in tl.static_range(2):
        group = 2 * pair + half
        codes = (both >> (4 * half)) & 15
        numbers, scale, offset = _group(
            codes, scales, output, num_outputs, group, groups, ZERO_POINT
        )
        column = group * GROUP + place
        there = outputs + wide * num_inputs + column
        result = numbers * scale[:, None] + offset[:, None]
        tl.store(there, result.to(outputs.dtype.element_ty), known & (column < num_inputs))
