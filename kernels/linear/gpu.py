"""y = x W^T with W in 8 or 4 bits for NVIDIA GPUs in Triton, for 1 to 16 rows; and W in full.

Whole numbers up to 127 are exact in bfloat16, so the tensor cores multiply them as they are, and
the scale comes after the sum: nothing is rounded on the way but the sums. A row's bits depend on
nothing but the row. For more rows a caller dequantises and multiplies.

The 4-bit layout is this backend's own. Groups of one row that follow each other share bytes: byte j
of a pair holds number j of the even group in its low half, of the odd group in its high half. So
both halves of a tile are stretches of neighbouring inputs and nothing has to be interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from kernels.views import dense_rows

MAX_ROWS = 16  # what a tensor core multiplies at once; with more, dequantising pays
_OUTPUTS = 16  # of one program: the fewest that a dot takes, and so the most programs
_INPUTS = 256  # of one step over 8-bit weights
_MIDDLE = 8  # what stands for zero where a weight brings no zeros of its own


@dataclass(frozen=True, slots=True)
class Int4Weight:
    """[num_outputs, num_inputs] numbers of 4 bits: w = (code - zero) * scale.

    `pairs` [num_outputs, ceil(groups / 2), group] uint8 as the module says; `scale`
    [num_outputs, groups] float32; `zero` likewise in uint8, None where every zero is 8.
    """

    pairs: Tensor
    scale: Tensor
    zero: Tensor | None

    @property
    def group(self) -> int:
        return self.pairs.shape[2]

    @property
    def shape(self) -> tuple[int, int]:
        return self.scale.shape[0], self.scale.shape[1] * self.group


def pack_int4(codes: Tensor, scale: Tensor, zero: Tensor | None = None) -> Int4Weight:
    """Lay out `codes` [num_outputs, num_inputs] uint8 of 0..15 in groups, one for each scale.

    `scale` [num_outputs, groups]; `zero` likewise, whole numbers in 0..15. A group is a power of
    two of at least 16 inputs; another raises ValueError.
    """
    num_outputs, num_inputs = codes.shape
    groups = scale.shape[1]
    group = num_inputs // groups
    if group * groups != num_inputs or group < 16 or group & (group - 1):
        raise ValueError(f"{num_inputs} inputs in {groups} groups: not a power of two from 16 up")
    halves = F.pad(codes, (0, group if groups % 2 else 0)).view(num_outputs, -1, 2, group)
    pairs = halves[:, :, 0] | halves[:, :, 1] << 4
    if zero is not None:
        zero = zero.to(torch.uint8).contiguous()
    return Int4Weight(pairs.contiguous(), scale.float().contiguous(), zero)


def int8_linear(inputs: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """[n, num_inputs] -> [n, num_outputs] in the type of `inputs`, for n <= 16.

    `weight` [num_outputs, num_inputs] int8, contiguous; `scale` [num_outputs] float32. More
    rows raise ValueError.
    """
    assert weight.is_contiguous() and scale.is_contiguous()
    outputs = _outputs(inputs, weight.shape)
    _int8_linear[(triton.cdiv(weight.shape[0], _OUTPUTS),)](
        inputs,
        weight,
        scale,
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
    """As `int8_linear`, with the weight in groups of 4-bit numbers."""
    outputs = _outputs(inputs, weight.shape)
    _int4_linear[(triton.cdiv(weight.shape[0], _OUTPUTS),)](
        inputs,
        weight.pairs,
        weight.scale,
        weight.pairs if weight.zero is None else weight.zero,
        outputs,
        inputs.shape[0],
        *weight.shape,
        inputs.stride(0),
        ROWS=MAX_ROWS,
        OUTPUTS=_OUTPUTS,
        GROUP=weight.group,
        MIDDLE=_MIDDLE,
        ZEROS=weight.zero is not None,
        num_warps=2,
        num_stages=1 if inputs.dtype == torch.float32 else 4,
    )
    return outputs


def dequantise_int8(weight: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """The whole weight [num_outputs, num_inputs] in `dtype`, with no other temporary."""
    return torch.mul(
        weight, scale[:, None], out=torch.empty(weight.shape, dtype=dtype, device=weight.device)
    )


def dequantise_int4(weight: Int4Weight, dtype: torch.dtype) -> Tensor:
    """The whole weight [num_outputs, num_inputs] in `dtype`, with no other temporary."""
    num_outputs, num_inputs = weight.shape
    outputs = torch.empty(weight.shape, dtype=dtype, device=weight.pairs.device)
    _dequantise_int4[(triton.cdiv(num_outputs, _OUTPUTS), weight.pairs.shape[1])](
        weight.pairs,
        weight.scale,
        weight.pairs if weight.zero is None else weight.zero,
        outputs,
        num_outputs,
        num_inputs,
        OUTPUTS=_OUTPUTS,
        GROUP=weight.group,
        MIDDLE=_MIDDLE,
        ZEROS=weight.zero is not None,
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
    scale: tl.tensor,
    zero: tl.tensor,
    output: tl.tensor,
    num_outputs: int,
    group: tl.tensor,
    groups: tl.tensor,
    MIDDLE: tl.constexpr,
    ZEROS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """What is left of `codes` [OUTPUTS, GROUP] without their zero, and the scales [OUTPUTS]."""
    valid = (output < num_outputs) & (group < groups)
    place = output.to(tl.int64) * groups + group
    numbers = codes.to(tl.float32)
    if ZEROS:
        numbers -= tl.load(zero + place, valid, 0).to(tl.float32)[:, None]
    else:
        numbers -= MIDDLE
    return numbers, tl.load(scale + place, valid, 0.0)


@triton.jit(do_not_specialize=["num_rows"])
def _int4_linear(
    inputs: tl.tensor,
    pairs: tl.tensor,
    scale: tl.tensor,
    zero: tl.tensor,
    outputs: tl.tensor,
    num_rows: int,
    num_outputs: int,
    num_inputs: int,
    stride: int,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    MIDDLE: tl.constexpr,
    ZEROS: tl.constexpr,
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
            numbers, factor = _group(
                codes, scale, zero, output, num_outputs, group, groups, MIDDLE, ZEROS
            )
            right = tl.trans(numbers.to(left.dtype))
            total += tl.dot(left, right, input_precision="ieee") * factor[None, :]
    there = outputs + row * num_outputs + output[None, :]
    valid = (row < num_rows) & (output < num_outputs)[None, :]
    tl.store(there, total.to(outputs.dtype.element_ty), valid)


@triton.jit
def _dequantise_int4(
    pairs: tl.tensor,
    scale: tl.tensor,
    zero: tl.tensor,
    outputs: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    MIDDLE: tl.constexpr,
    ZEROS: tl.constexpr,
) -> None:
    """Programs (outputs, pair of groups)."""
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    pair = tl.program_id(1)
    place = tl.arange(0, GROUP)[None, :]
    wide = output.to(tl.int64)[:, None]
    known = (output < num_outputs)[:, None]
    both = tl.load(pairs + (wide * tl.num_programs(1) + pair) * GROUP + place, known, 0)
    for half in tl.static_range(2):
        group = 2 * pair + half
        codes = (both >> (4 * half)) & 15
        numbers, factor = _group(
            codes, scale, zero, output, num_outputs, group, num_inputs // GROUP, MIDDLE, ZEROS
        )
        column = group * GROUP + place
        there = outputs + wide * num_inputs + column
        result = (numbers * factor[:, None]).to(outputs.dtype.element_ty)
        tl.store(there, result, known & (column < num_inputs))
