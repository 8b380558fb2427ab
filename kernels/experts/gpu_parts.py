"""GPU products whose weights depend on the row: programs (tile of rows, some outputs)."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.linear.gpu_parts import grouped_product, row_product


@triton.jit
def _tile(
    expert: tl.tensor, first: tl.tensor, end: tl.tensor, source: tl.tensor, ROWS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The expert, rows [ROWS], which of them exist, and whose inputs they have."""
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
    INPUTS: tl.constexpr,
) -> None:
    """Weights of the type of `inputs`."""
    chosen, row, there, whose = _tile(expert, first, end, source, ROWS)
    weight = tl.load(weights + chosen).to(tl.pointer_type(inputs.dtype.element_ty))
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    line = weight + output.to(tl.int64)[:, None] * num_inputs
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for at in range(0, num_inputs, INPUTS):
        column = at + tl.arange(0, INPUTS)[None, :]
        inside = column < num_inputs
        left = tl.load(inputs + whose[:, None] * stride + column, there[:, None] & inside, 0.0)
        right = tl.load(line + column, (output < num_outputs)[:, None] & inside, 0)
        total = tl.dot(left, tl.trans(right), total, input_precision="ieee")
    _put(outputs, total, row, there, output, num_outputs, biases, chosen, BIASED)


@triton.jit
def _groups(
    weights: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    chosen: tl.tensor,
    KIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """An expert's codes, scales and factors."""
    codes = tl.load(weights + chosen).to(tl.pointer_type(tl.uint8))
    scale = tl.load(scales + chosen)
    if KIND == "int8":
        scale = scale.to(tl.pointer_type(tl.float32))
    elif KIND == "int4":
        scale = scale.to(tl.pointer_type(tl.bfloat16))
    elif KIND == "Q8_0":
        scale = scale.to(tl.pointer_type(tl.float16))
    else:
        scale = scale.to(tl.pointer_type(tl.int8 if KIND == "Q6_K" else tl.uint8))
    return codes, scale, tl.load(factors + chosen).to(tl.pointer_type(tl.float16))


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
    codes, scale, factor = _groups(weights, scales, factors, chosen, KIND)
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    total = grouped_product(
        inputs + whose[:, None] * stride, there[:, None], codes, scale, factor, output,
        num_outputs, num_inputs, given, ROWS, OUTPUTS, KIND, GROUP, PARTS, OFFSETS,
    )  # fmt: skip
    _put(outputs, total, row, there, output, num_outputs, biases, chosen, BIASED)


@triton.jit
def step_of_groups(
    inputs: tl.tensor,
    weights: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    biases: tl.tensor,
    outputs: tl.tensor,
    expert: tl.tensor,
    source: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    stride: int,
    BIASED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CHUNKS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> None:
    """Like `rows_of_groups`, for tiles of one row: programs (outputs, tiles)."""
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row, known = tl.program_id(1).to(tl.int64), output < num_outputs
    chosen, whose = tl.load(expert + row), tl.load(source + row)
    codes, scale, factor = _groups(weights, scales, factors, chosen, KIND)
    total = row_product(
        inputs + whose * stride, codes, scale, factor, output, num_outputs, num_inputs, given,
        OUTPUTS, CHUNKS, KIND, GROUP, PARTS, OFFSETS,
    )  # fmt: skip
    if BIASED:
        bias = tl.load(biases + chosen).to(tl.pointer_type(outputs.dtype.element_ty))
        total += tl.load(bias + output, known, 0.0).to(tl.float32)
    tl.store(outputs + row * num_outputs + output, total.to(outputs.dtype.element_ty), known)
