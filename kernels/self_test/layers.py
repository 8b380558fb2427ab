"""Self-test cases of layers with a state and of sparse experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from kernels.common.shapes import (
    DeltaInputs,
    DeltaShape,
    ExpertShape,
    Mamba1Shape,
    Mamba2Shape,
    ShortConvShape,
    SpaceInputs,
)
from kernels.experts.reference import gated
from kernels.gated_delta.reference import CHUNK
from kernels.linear.reference import PlainMatrix
from kernels.ops import Ops
from kernels.self_test.rows import FEW, ROWS, Case, Numbers


def _convolution(shape: DeltaShape | Mamba1Shape | Mamba2Shape, numbers: Numbers) -> Iterator[Case]:
    before, channels = shape.taps - 1, sum(shape.widths)
    rows, weight = numbers.rough(before + ROWS, channels), numbers.exact(shape.taps, channels)
    bias = numbers.exact(channels)

    # Mamba-1 multiplies matrices by what it gives.
    rounded = isinstance(shape, Mamba1Shape)

    def run(ops: Ops, dtype: torch.dtype, bias: Tensor | None) -> list[Tensor]:
        result = dtype if rounded else torch.float32
        return [ops.convolve(rows.to(dtype), weight, bias, result)]

    def step(ops: Ops, dtype: torch.dtype, bias: Tensor | None) -> list[Tensor]:
        tail, few = rows[:before].to(dtype, copy=True), rows[before : before + FEW].to(dtype)
        result = dtype if rounded else torch.float32
        return [ops.causal_conv_step(few, tail, weight, bias, result), tail.float()]

    # Products are added one by one; silu is nowhere steeper than 1.1.
    most = shape.taps * rows.abs().max() * weight.abs().max() + bias.abs().max()
    for each in (bias, None):
        for name, call in (("convolve", run), ("causal_conv_step", step)):
            yield Case(name, numbers.dtype, partial(call, bias=each), 24, 1.1 * float(most))


def _short_conv(shape: ShortConvShape, numbers: Numbers) -> Iterator[Case]:
    before, channels = shape.taps - 1, shape.channels
    # Products of two that every type can hold: what is tried is not how a product is rounded.
    projected = (4 * numbers.exact(ROWS, 3 * channels + 5)).round().clamp(-15, 15) / 4
    tail = numbers.rough(before, channels)
    weight, bias = numbers.exact(shape.taps, channels), numbers.exact(channels)

    def call(ops: Ops, dtype: torch.dtype, count: int, bias: Tensor | None) -> list[Tensor]:
        rows, after = projected.to(dtype)[:count, : 3 * channels], tail.to(dtype, copy=True)
        return [ops.short_conv(rows, after, weight, bias), after]

    # Products are added one by one; of each two factors are the largest there may be.
    largest = projected.abs().max()
    most = largest * (shape.taps * largest**2 * weight.abs().max() + bias.abs().max())
    for count in (ROWS, 1):
        for each in (bias, None):
            named = partial(call, count=count, bias=each)
            yield Case("short_conv", numbers.dtype, named, 24, float(most))


def _delta_gates(shape: DeltaShape, numbers: Numbers) -> Iterator[Case]:
    widths = [shape.decays, shape.value_heads]
    steps = numbers.rough(9, sum(widths))
    rate, bias = -numbers.exact(shape.decays).abs(), numbers.exact(shape.decays)

    def call(ops: Ops, dtype: torch.dtype, multiplier: float) -> list[Tensor]:
        step, beta = (4 * steps).to(dtype).split(widths, dim=1)
        return list(ops.delta_gates(step, beta, rate, bias, multiplier))

    # log(1 + x) of a small x is off by as many ULP as 1 + x has more.
    for multiplier in (1.0, 2.0):
        named = partial(call, multiplier=multiplier)
        yield Case("delta_gates", numbers.dtype, named, 16, float(rate.abs().max()))


def _delta_rule(shape: DeltaShape, numbers: Numbers) -> Iterator[Case]:
    columns = numbers.exact(ROWS, sum(shape.widths))
    decay = -0.1 * numbers.exact(ROWS, shape.decays).abs()
    beta = numbers.exact(ROWS, shape.value_heads).sigmoid()
    state = numbers.exact(shape.value_heads, shape.key_dim, shape.value_dim)
    # Outputs and state add up dk + 64 products. Lengths, decays and exponentials add some, and a
    # decay is e to the difference of two sums: off by as many ULP as those are large.
    ulps = 2 * (shape.key_dim + CHUNK + 32 + float(decay.sum(0).abs().max()))
    if shape.by_channel:
        decay = decay.unflatten(1, (shape.value_heads, shape.key_dim))

    def call(ops: Ops, dtype: torch.dtype, name: str, count: int) -> list[Tensor]:
        queries, keys, values = columns[:count].split(shape.widths, dim=1)
        after = state.clone()
        heads = (
            queries.unflatten(1, (shape.key_heads, -1)),
            keys.unflatten(1, (shape.key_heads, -1)),
            values.unflatten(1, (shape.value_heads, -1)),
        )
        given = DeltaInputs(*heads, decay[:count], beta[:count])
        outputs = getattr(ops, name)(given, after)
        return [outputs, after]

    step = "recurrent_gated_delta_step"
    for name, count in (("chunked_gated_delta_", ROWS), (step, 1), (step, FEW)):
        yield Case(name, numbers.dtype, partial(call, name=name, count=count), ulps, 0.0)


def _time_steps(shape: Mamba1Shape | Mamba2Shape, numbers: Numbers) -> Iterator[Case]:
    count = shape.channels if isinstance(shape, Mamba1Shape) else shape.heads
    steps, bias = 4 * numbers.rough(9, count + 3), numbers.exact(count)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        rows = steps.to(dtype)[:, :count]
        return [ops.time_steps(rows, bias, 0.5, 0.001, 3.0)]

    # As of `_delta_gates`.
    yield Case("time_steps", numbers.dtype, call, 16, 1.0)


def _scan(shape: Mamba1Shape, numbers: Numbers) -> Iterator[Case]:
    inputs = numbers.rough(ROWS, 2 * shape.channels)
    both = numbers.rough(ROWS, 2 * shape.state_dim)
    steps = 0.1 * numbers.exact(ROWS, shape.channels).abs()
    rate, skip = (
        -numbers.exact(shape.state_dim, shape.channels).abs(),
        numbers.exact(shape.channels),
    )
    state = numbers.exact(shape.state_dim, shape.channels)
    # As of `_state_space`; a decay is rounded for each token that it is multiplied by.
    ulps = 2 * (shape.state_dim + 3 * ROWS + 32)

    def call(ops: Ops, dtype: torch.dtype, name: str, count: int) -> list[Tensor]:
        b, c = both.to(dtype)[:count].chunk(2, dim=1)
        rows = inputs.to(dtype)[:count, : shape.channels]
        after = state.clone()
        outputs = getattr(ops, name)(SpaceInputs(rows, b, c, steps[:count], rate, skip), after)
        return [outputs, after]

    for name, count in (("mamba1_run_", ROWS), ("mamba1_step", 1), ("mamba1_step", FEW)):
        yield Case(name, numbers.dtype, partial(call, name=name, count=count), ulps, 0.0)


def _state_space(shape: Mamba2Shape, numbers: Numbers) -> Iterator[Case]:
    columns = numbers.exact(ROWS, sum(shape.widths))
    steps = 0.1 * numbers.exact(ROWS, shape.heads).abs()
    rate, skip = -numbers.exact(shape.heads).abs(), numbers.exact(shape.heads)
    state = numbers.exact(shape.heads, shape.head_dim, shape.state_dim)
    # Outputs add up N + 64 products of what adds up as many; decays as of `_delta_rule`.
    decays = float((steps * rate).sum(0).abs().max())
    ulps = 2 * (shape.state_dim + CHUNK + 32 + decays)

    def call(ops: Ops, dtype: torch.dtype, name: str, count: int) -> list[Tensor]:
        inputs, b, c = columns[:count].split(shape.widths, dim=1)
        after = state.clone()
        rows = (
            inputs.unflatten(1, (shape.heads, -1)),
            b.unflatten(1, (shape.groups, -1)),
            c.unflatten(1, (shape.groups, -1)),
            steps[:count],
        )
        return [getattr(ops, name)(SpaceInputs(*rows, rate, skip), after), after]

    for name, count in (("mamba2_run_", ROWS), ("mamba2_step", 1), ("mamba2_step", FEW)):
        yield Case(name, numbers.dtype, partial(call, name=name, count=count), ulps, 0.0)


# All of a model's are gigabytes; of the largest releases one is.
_FEW_EXPERTS = 2
_BLOCK = 512  # no kernel takes more inner numbers at once


def _routing(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    logits = 2 * numbers.rough(9, shape.count + 1)
    logits[0, :] = 0  # of equal experts the first
    # In steps, so that experts that were equal often still are.
    correction = (2 * numbers.exact(shape.count)).round() / 4 if shape.routing.sigmoid else None
    factors = 1 + numbers.exact(shape.count).abs() if shape.factors else None

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        given = logits.to(dtype)[:, : shape.count]
        ids, weights = ops.route(given, shape.routing, correction, factors)
        return [ids.float(), weights]

    # An exponent is the difference of two logits; all of them are added up.
    ulps = shape.count + 2 * float(logits.abs().max()) + 32
    yield Case("route", numbers.dtype, call, ulps, 0.0)


def _experts(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    """Many rows and a step through two experts; `inner` is one block and a remainder."""
    count = min(_FEW_EXPERTS, shape.count)
    inner = shape.inner if shape.inner < 2 * _BLOCK else _BLOCK + shape.inner % _BLOCK
    taken = (2 if shape.gated else 1) * inner
    weights = [
        (numbers.rough(taken, shape.width), numbers.rough(shape.width, inner)) for _ in range(count)
    ]
    biases = [(numbers.rough(taken), numbers.rough(shape.width)) for _ in range(count)]
    # Something simple of the right width.
    activation = gated(torch.add) if shape.gated else lambda rows: rows + rows
    rows = numbers.rough(ROWS, shape.width)
    ids = torch.arange(ROWS * count, dtype=torch.int32, device=rows.device) % count
    both, in_turn = ids.view(ROWS, count), ids[:ROWS, None]

    def matrix(expert: int, side: int, dtype: torch.dtype) -> PlainMatrix:
        bias = biases[expert][side].to(dtype) if shape.bias else None
        return PlainMatrix(weights[expert][side].to(dtype), bias)

    def call(ops: Ops, dtype: torch.dtype, chosen: Tensor) -> list[Tensor]:
        up, down = ([matrix(expert, side, dtype) for expert in range(count)] for side in (0, 1))
        bank = ops.experts(up, down, activation)
        is_step = len(chosen) == 1
        places, found = bank(rows[: len(chosen)].to(dtype), chosen, is_step)
        return [found if places is None else found[places]]

    # Two products one after the other; what comes of the first is rounded to the model's type.
    rounded = 2**16 if numbers.dtype == torch.bfloat16 else 0
    ulps = 4 * (shape.width + inner) + rounded
    for chosen in (both, in_turn, both[:1]):
        yield Case("experts", numbers.dtype, partial(call, chosen=chosen), ulps, 0.0)


def _weighted_sum(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    k = shape.routing.k
    rows, weights = numbers.rough(9 * k, shape.width), numbers.exact(9, k).softmax(1)
    shared, gate = numbers.rough(9, shape.width), numbers.rough(9, 3)
    places = torch.arange(9 * k, device=rows.device).flip(0)

    def call(ops: Ops, dtype: torch.dtype, places: Tensor | None) -> list[Tensor]:
        beside = (shared.to(dtype), gate.to(dtype)[:, 1:2]) if shape.shared else (None, None)
        return [ops.weighted_sum(places, rows.to(dtype), weights, *beside)]

    most = 2 * float(rows.abs().max())
    for where in (None, places):
        yield Case("weighted_sum", numbers.dtype, partial(call, places=where), k + 16, most)


CASES: dict[type, tuple[Callable[..., Iterator[Case]], ...]] = {
    DeltaShape: (_convolution, _delta_gates, _delta_rule),
    Mamba1Shape: (_convolution, _time_steps, _scan),
    Mamba2Shape: (_convolution, _time_steps, _state_space),
    ShortConvShape: (_short_conv,),
    ExpertShape: (_routing, _experts, _weighted_sum),
}
"""Makers of cases by the shape that they take."""
