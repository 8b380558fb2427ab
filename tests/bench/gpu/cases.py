"""The ops that a GPU runs in Triton at a model's sizes, each beside plain torch.

What is read or written once counts once; what a kernel keeps for itself in between does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.attention import fused
from kernels.attention.gpu import decode_attention
from kernels.causal_conv import reference as plain_conv
from kernels.causal_conv.gpu import causal_conv_step, convolve
from kernels.rms_norm import gpu as norms
from kernels.rms_norm import reference as plain_norms
from kernels.rope import reference as plain_rope
from kernels.rope.gpu import norm_rotate, rotate
from tests.bench.gpu.case import EPSILON, PLAIN, Case, Numbers, copied, rows

TAPS = 4


def cases(numbers: Numbers, dtype: torch.dtype) -> Iterator[Case]:
    """Everything but the delta rule and matrices; arguments are made when a case is asked for."""
    run = numbers.sizes.run
    for count in (1, run):
        yield norm(numbers, dtype, count)
        yield add_norm(numbers, dtype, count)
        yield gated_norm(numbers, dtype, count)
    yield conv_step(numbers, dtype)
    yield conv_run(numbers, dtype)
    for count in (1, run):
        yield rotation(numbers, dtype, count)
        yield normalised_rotation(numbers, dtype, count)
    for context in numbers.sizes.contexts:
        yield attention(numbers, dtype, context)


def norm(numbers: Numbers, dtype: torch.dtype, count: int) -> Case:
    """Rows in and out, beside torch's own norm."""
    width = numbers.sizes.shape.hidden
    inputs, scale = numbers.apart(count, width, dtype=dtype), numbers.normal(width)
    rough = scale.to(dtype)
    return Case(
        name=f"rms norm, {rows(count)}",
        run=lambda number: norms.rms_norm(inputs[number], scale, EPSILON),
        copies=len(inputs),
        least_bytes=2 * inputs[0].nbytes + scale.nbytes,
        others={PLAIN: lambda number: F.rms_norm(inputs[number], (width,), rough, EPSILON)},
    )


def add_norm(numbers: Numbers, dtype: torch.dtype, count: int) -> Case:
    """Rows and residuals in, sums and normalised sums out."""
    width = numbers.sizes.shape.hidden
    both, scale = numbers.apart(2, count, width, dtype=dtype), numbers.normal(width)
    pairs = [(each[0], each[1]) for each in both]
    return Case(
        name=f"rms norm of a sum, {rows(count)}",
        run=lambda number: norms.add_rms_norm(*pairs[number], scale, EPSILON),
        copies=len(both),
        least_bytes=2 * both[0].nbytes + scale.nbytes,
        others={PLAIN: lambda number: plain_norms.add_rms_norm(*pairs[number], scale, EPSILON)},
    )


def gated_norm(numbers: Numbers, dtype: torch.dtype, count: int) -> Case:
    """What the delta rule read, in float32, and its gate in; rows of the model's type out."""
    heads, width = numbers.sizes.shape.value_heads, numbers.sizes.shape.linear_dim
    inputs, scale = numbers.apart(count, heads, width), numbers.normal(width)
    gates = copied(numbers.normal(count, heads, width, dtype=dtype), len(inputs))
    plain = plain_norms.gated_rms_norm
    return Case(
        name=f"gated norm, {rows(count)}",
        run=lambda number: norms.gated_rms_norm(
            inputs[number], scale, gates[number], EPSILON, dtype
        ),
        copies=len(inputs),
        least_bytes=inputs[0].nbytes + 2 * gates[0].nbytes + scale.nbytes,
        others={PLAIN: lambda number: plain(inputs[number], scale, gates[number], EPSILON, dtype)},
    )


def conv_run(numbers: Numbers, dtype: torch.dtype) -> Case:
    """A run's columns in, convolved ones in float32 out."""
    width, run = numbers.sizes.shape.delta_columns, numbers.sizes.run
    inputs = numbers.apart(TAPS - 1 + run, width, dtype=dtype)
    weight = numbers.normal(TAPS, width)
    return Case(
        name=f"causal conv, {rows(run)}",
        run=lambda number: convolve(inputs[number], weight),
        copies=len(inputs),
        least_bytes=inputs[0].nbytes + 4 * run * width + weight.nbytes,
        others={PLAIN: lambda number: plain_conv.convolve(inputs[number], weight)},
    )


def conv_step(numbers: Numbers, dtype: torch.dtype) -> Case:
    """One token; the tail is read, and written one place further."""
    width = numbers.sizes.shape.delta_columns
    tails = numbers.apart(TAPS - 1, width, dtype=dtype)
    own = copied(tails[0].clone(), len(tails))
    row, weight = numbers.normal(1, width, dtype=dtype), numbers.normal(TAPS, width)
    return Case(
        name="causal conv, a step",
        run=lambda number: causal_conv_step(row, own[number], weight),
        copies=len(tails),
        least_bytes=row.nbytes + 2 * tails[0].nbytes + weight.nbytes + 4 * width,
        others={PLAIN: lambda number: plain_conv.causal_conv_step(row, tails[number], weight)},
    )


def rotation(numbers: Numbers, dtype: torch.dtype, count: int) -> Case:
    """Queries in and out; a quarter of each head turns."""
    shape = numbers.sizes.shape
    heads = numbers.apart(count, shape.heads, shape.head_dim, dtype=dtype)
    cosine, sine = _turns(numbers, dtype, count)
    return Case(
        name=f"rotate, {rows(count)}",
        run=lambda number: rotate(heads[number], cosine, sine),
        copies=len(heads),
        least_bytes=2 * heads[0].nbytes + 2 * cosine.nbytes,
        others={PLAIN: lambda number: plain_rope.rotate(heads[number], cosine, sine)},
    )


def normalised_rotation(numbers: Numbers, dtype: torch.dtype, count: int) -> Case:
    """Queries normalised and rotated, in and out."""
    shape = numbers.sizes.shape
    heads = numbers.apart(count, shape.heads, shape.head_dim, dtype=dtype)
    scale = numbers.normal(1, shape.head_dim)[0]
    cosine, sine = _turns(numbers, dtype, count)
    return Case(
        name=f"norm and rotate, {rows(count)}",
        run=lambda number: norm_rotate(heads[number], scale, EPSILON, cosine, sine),
        copies=len(heads),
        least_bytes=2 * heads[0].nbytes + 2 * cosine.nbytes,
        others={
            PLAIN: lambda number: plain_rope.norm_rotate(
                heads[number], scale, EPSILON, cosine, sine
            )
        },
    )


def attention(numbers: Numbers, dtype: torch.dtype, context: int) -> Case:
    """One token over the whole context: its keys and values are read."""
    shape = numbers.sizes.shape
    queries = numbers.normal(1, shape.heads, shape.head_dim, dtype=dtype)
    kv_buffers = numbers.apart(2, context, shape.kv_heads, shape.head_dim, dtype=dtype)
    parts = [(each[0], each[1]) for each in kv_buffers]
    length = torch.full((1,), context, dtype=torch.int32, device=numbers.device)
    scale = shape.head_dim**-0.5
    return Case(
        name=f"attention, 1 row behind {context - 1:,}",
        run=lambda number: decode_attention(queries, *parts[number], length, scale),
        copies=len(kv_buffers),
        least_bytes=kv_buffers[0].nbytes + 2 * queries.nbytes,
        others={PLAIN: lambda number: fused.causal_attention(queries, *parts[number], scale)},
    )


def _turns(numbers: Numbers, dtype: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of so many positions."""
    angles = 7 * numbers.normal(count, numbers.sizes.shape.head_dim // 8)
    return angles.cos().to(dtype), angles.sin().to(dtype)
