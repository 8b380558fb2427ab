"""GPU products whose weights depend on the row: programs (tile of rows, some outputs). Launched by
`gpu`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(
    expert: tl.tensor, first: tl.tensor, end: tl.tensor, source: tl.tensor, ROWS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The tile's expert, its rows [ROWS], which rows exist, and whose inputs they have."""
    tile = tl.program_id(0)
    row = tl.load(first + tile) + tl.arange(0, ROWS)
    there = row < tl.load(end + tile)
    return tl.load(expert + tile), row, there, tl.load(source + row, there, 0)


@triton.jit
def _put(
    outputs: tl.tensor,
    total: tl.tensor,
    row: tl.tensor,
    there: tl.tensor,
    output: tl.tensor,
    num_outputs: int,
) -> None:
    place = outputs + row.to(tl.int64)[:, None] * num_outputs + output[None, :]
    known = there[:, None] & (output < num_outputs)[None, :]
    tl.store(place, total.to(outputs.dtype.element_ty), known)


@triton.jit
def rows_of_numbers(
    inputs: tl.tensor,
    weights: tl.tensor,
    scales: tl.tensor,
    outputs: tl.tensor,
    expert: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    source: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    stride: int,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
) -> None:
    """Weights of the type of `inputs`, or if SCALED of 8-bit integers, with float32 scales."""
    chosen, row, there, whose = _tile(expert, first, end, source, ROWS)
    if SCALED:
        weight = tl.load(weights + chosen).to(tl.pointer_type(tl.int8))
    else:
        weight = tl.load(weights + chosen).to(tl.pointer_type(inputs.dtype.element_ty))
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    line = weight + output.to(tl.int64)[:, None] * num_inputs
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for at in range(0, num_inputs, INPUTS):
        column = at + tl.arange(0, INPUTS)[None, :]
        inside = column < num_inputs
        left = tl.load(inputs + whose[:, None] * stride + column, there[:, None] & inside, 0.0)
        right = tl.load(line + column, (output < num_outputs)[:, None] & inside, 0)
        total = tl.dot(left, tl.trans(right.to(left.dtype)), total, input_precision="ieee")
    if SCALED:
        scale = tl.load(scales + chosen).to(tl.pointer_type(tl.float32))
        total *= tl.load(scale + output, output < num_outputs, 0.0)[None, :]
    _put(outputs, total, row, there, output, num_outputs)


@triton.jit
def rows_of_int4(
    inputs: tl.tensor,
    weights: tl.tensor,
    scales: tl.tensor,
    outputs: tl.tensor,
    expert: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    source: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    stride: int,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    ZERO_POINT: tl.constexpr,
) -> None:
    """4-bit weights in pairs of groups, with scales and offsets (`kernels.linear.gpu`)."""
    chosen, row, there, whose = _tile(expert, first, end, source, ROWS)
    pairs = tl.load(weights + chosen).to(tl.pointer_type(tl.uint8))
    pair_of = tl.load(scales + chosen).to(tl.pointer_type(tl.bfloat16))
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    known, wide = output < num_outputs, output.to(tl.int64)
    place = tl.arange(0, GROUP)[None, :]
    groups = num_inputs // GROUP
    num_pairs = (groups + 1) // 2
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for pair in range(num_pairs):
        line = pairs + (wide[:, None] * num_pairs + pair) * GROUP
        both = tl.load(line + place, known[:, None], 0)
        for half in tl.static_range(2):
            group = 2 * pair + half
            column = group * GROUP + place
            left = tl.load(
                inputs + whose[:, None] * stride + column, there[:, None] & (column < given), 0.0
            )
            codes = ((both >> (4 * half)) & 15).to(tl.float32) - ZERO_POINT
            at, valid = pair_of + 2 * (wide * groups + group), known & (group < groups)
            scale = tl.load(at, valid, 0.0).to(tl.float32)
            offset = tl.load(at + 1, valid, 0.0).to(tl.float32)
            right = tl.trans(codes.to(left.dtype))
            total += tl.dot(left, right, input_precision="ieee") * scale[None, :]
            total += tl.sum(left.to(tl.float32), 1)[:, None] * offset[None, :]
    _put(outputs, total, row, there, output, num_outputs)
