"""GPU products whose weights depend on the row: programs (tile of rows, some outputs)."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.linear.gpu_parts import grouped_product


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
    biases: tl.tensor,
    chosen: tl.tensor,
    BIASED: tl.constexpr,
) -> None:
    if BIASED:
        bias = tl.load(biases + chosen).to(tl.pointer_type(outputs.dtype.element_ty))
        total += tl.load(bias + output, output < num_outputs, 0.0).to(tl.float32)[None, :]
    place = outputs + row.to(tl.int64)[:, None] * num_outputs + output[None, :]
    known = there[:, None] & (output < num_outputs)[None, :]
    tl.store(place, total.to(outputs.dtype.element_ty), known)


@triton.jit
def rows_of_numbers(
    inputs: tl.tensor,
    weights: tl.tensor,
    scales: tl.tensor,
    biases: tl.tensor,
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
    BIASED: tl.constexpr,
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
    _put(outputs, total, row, there, output, num_outputs, biases, chosen, BIASED)


@triton.jit
def rows_of_groups(
    inputs: tl.tensor,
    weights: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    biases: tl.tensor,
    outputs: tl.tensor,
    expert: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    source: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    stride: int,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    """Weights in groups (`kernels.linear.gpu.GroupWeight`)."""
    chosen, row, there, whose = _tile(expert, first, end, source, ROWS)
    codes = tl.load(weights + chosen).to(tl.pointer_type(tl.int8 if KIND == "Q8_0" else tl.uint8))
    if KIND == "int4":
        scale = tl.load(scales + chosen).to(tl.pointer_type(tl.bfloat16))
    elif KIND == "Q8_0":
        scale = tl.load(scales + chosen).to(tl.pointer_type(tl.float16))
    else:
        scale = tl.load(scales + chosen).to(
            tl.pointer_type(tl.int8 if KIND == "Q6_K" else tl.uint8)
        )
    factor = tl.load(factors + chosen).to(tl.pointer_type(tl.float16))
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    total = grouped_product(
        inputs + whose[:, None] * stride, there[:, None], codes, scale, factor, output,
        num_outputs, num_inputs, given, False, ROWS, OUTPUTS, KIND, GROUP, PARTS, OFFSETS,
    )  # fmt: skip
    _put(outputs, total, row, there, output, num_outputs, biases, chosen, BIASED)
