"""What an operation is tried with: random numbers of a model's sizes, and how far it may stray.

The bounds count float32 ULP. Both sides add up, so both err, by half an ULP for each
addition at most; a GPU's roots, exponentials and sigmoids give away a few more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kernels.common.shapes import (
    AttentionShape,
    DeltaShape,
    ExpertShape,
    FullAttentionShape,
    GateShape,
    GroupNormShape,
    Mamba1Shape,
    Mamba2Shape,
    NormShape,
    OpenGateShape,
    OpShape,
    RotationShape,
    SquaredReluShape,
    SumShape,
)
from kernels.gated_delta.reference import CHUNK
from kernels.linear.reference import PlainMatrix
from kernels.ops import Ops

_EPSILON = 1e-6
_ROWS = CHUNK + 1  # of a run: one chunk of the delta rule, and the first row of another
_KEYS = (1, 300)  # that one token sees; most splits of the context are empty, or none is
_BEYOND = 37  # keys that a window hides
_LONGEST = 4_096
_FEW_EXPERTS = 4  # of a bank: all of a model's are gigabytes


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the operation `op`.

    `call(ops, dtype)` makes it anew on the same numbers, those of the model's type in `dtype`, and
    returns all that it leaves behind. It may be off by `ulps` ULP of each number, or with
    a `magnitude` of the largest number or that, whichever is more.
    """

    op: str
    dtype: torch.dtype
    call: Callable[[Ops, torch.dtype], list[Tensor]]
    ulps: float
    magnitude: float | None = None


def cases(shapes: Iterable[OpShape], device: torch.device, dtype: torch.dtype) -> Iterator[Case]:
    """Calls like those of a model in `dtype` with these `shapes`, each on numbers of its own."""
    numbers = _Numbers(device, dtype)
    for shape in sorted(shapes, key=repr):
        for make in _MADE_FOR[type(shape)]:
            yield from make(shape, numbers)


class _Numbers:
    """Draws normal numbers for one device, the same ones each time it is made."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._generator = torch.Generator().manual_seed(0)

    def exact(self, *shape: int) -> Tensor:
        """Float32."""
        return torch.randn(shape, generator=self._generator).to(self.device)

    def rough(self, *shape: int) -> Tensor:
        """Float32 as well, but such as the model's type can hold."""
        return self.exact(*shape).to(self.dtype).float()


def _norm(shape: NormShape, numbers: _Numbers) -> Iterator[Case]:
    width = shape.width
    rows, scale = numbers.rough(5, 3, 2 * width), 1 + 0.2 * numbers.exact(width)
    gate = numbers.rough(5, 3, width)

    def hidden(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.rms_norm(rows[:, 0, :width].to(dtype), scale, _EPSILON)]

    def heads(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.rms_norm(rows.to(dtype)[..., :width], scale, _EPSILON)]

    # Sums that every type can hold: what is tried is not how a sum is rounded.
    steps = (8 * numbers.exact(2, 5, width)).round().clamp(-40, 40) / 8

    def after_sum(ops: Ops, dtype: torch.dtype, multiplier: float = 1.0) -> list[Tensor]:
        inputs, residual = steps.to(dtype)
        return list(ops.add_rms_norm(inputs, residual, scale, _EPSILON, multiplier))

    def gated(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.gated_rms_norm(rows[..., :width], scale, gate.to(dtype), _EPSILON, dtype)]

    # Squares are added up in a tree, or one by one in a few lanes; half of that shows.
    ulps = width.bit_length() + 16
    if shape.gated:
        yield Case("gated_rms_norm", numbers.dtype, gated, ulps)
    else:
        yield Case("rms_norm", numbers.dtype, hidden, ulps)
        yield Case("rms_norm", numbers.dtype, heads, ulps)
        yield Case("add_rms_norm", numbers.dtype, after_sum, ulps)
        yield Case("add_rms_norm", numbers.dtype, partial(after_sum, multiplier=0.5), ulps)


def _gate(shape: GateShape, numbers: _Numbers) -> Iterator[Case]:
    both = numbers.rough(9, 2 * shape.width)

    def call(ops: Ops, dtype: torch.dtype, multiplier: float = 1.0) -> list[Tensor]:
        gate, up = both.to(dtype).chunk(2, dim=1)
        return [ops.geglu(gate, up) if shape.gelu else ops.swiglu(gate, up, multiplier)]

    # A cube in the exponent: off by as many ULP as that is large.
    ulps = 64 if shape.gelu else 16
    name = "geglu" if shape.gelu else "swiglu"
    # Plain torch's 1 + tanh of a gate far below zero keeps few of its places, which shows where no
    # gate is rounded anyway.
    magnitude = 0.0 if shape.gelu and numbers.dtype == torch.float32 else None
    ulps += _rounded_gate(numbers)
    yield Case(name, numbers.dtype, call, ulps, magnitude)
    if not shape.gelu:
        yield Case(name, numbers.dtype, partial(call, multiplier=0.5), ulps)


def _rounded_gate(numbers: _Numbers) -> int:
    """Plain torch rounds a gate to the model's type before the product: once more than is allowed
    for by itself, and a place below a power of two is twice as wide as one above."""
    return 2**16 if numbers.dtype == torch.bfloat16 else 0


def _squared_relu(shape: SquaredReluShape, numbers: _Numbers) -> Iterator[Case]:
    rows = numbers.rough(9, shape.width)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.squared_relu(rows.to(dtype))]

    yield Case("squared_relu", numbers.dtype, call, 1)


def _open_gate(shape: OpenGateShape, numbers: _Numbers) -> Iterator[Case]:
    attended = numbers.rough(9, shape.heads, shape.head_dim)
    gates = numbers.rough(9, shape.heads, 2 * shape.head_dim)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.open_gate(attended.to(dtype), gates.to(dtype)[..., shape.head_dim :])]

    yield Case("open_gate", numbers.dtype, call, 16 + _rounded_gate(numbers))


def _sum(shape: SumShape, numbers: _Numbers) -> Iterator[Case]:
    first, second = numbers.rough(2, 9, shape.width)

    def call(ops: Ops, dtype: torch.dtype, multiplier: float) -> list[Tensor]:
        return [ops.add(first.to(dtype), second.to(dtype), multiplier)]

    yield Case("add", numbers.dtype, partial(call, multiplier=1.0), 1)
    largest = float(first.abs().max())
    yield Case("add", numbers.dtype, partial(call, multiplier=0.3), 2, largest)


def _rotation(shape: RotationShape, numbers: _Numbers) -> Iterator[Case]:
    half = shape.rotary_dim // 2
    heads = numbers.rough(9, shape.heads, 2 * shape.head_dim)
    angles = 7 * numbers.exact(9, half)
    factors = [each.to(numbers.dtype).float() for each in (angles.cos(), angles.sin())]

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        cosine, sine = (each.to(dtype) for each in factors)
        return [ops.rotate(heads.to(dtype)[..., : shape.head_dim], cosine, sine)]

    scale = 1 + 0.2 * numbers.exact(shape.head_dim)

    def normed(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        cosine, sine = (each.to(dtype) for each in factors)
        given = heads.to(dtype)[..., : shape.head_dim]
        return [ops.norm_rotate(given, scale, _EPSILON, cosine, sine)]

    # A norm may be rounded to the model's type before it turns.
    rounded = 2**16 if numbers.dtype == torch.bfloat16 else 0
    ulps = shape.head_dim.bit_length() + 16 + rounded
    yield Case("norm_rotate", numbers.dtype, normed, ulps, 2 * float(heads.abs().max()))
    # Two products and their sum. Vision towers rotate in float32, whatever the model's type.
    for dtype in {numbers.dtype, torch.float32}:
        yield Case("rotate", dtype, call, 4, 2 * float(heads.abs().max()))


def _attention(shape: AttentionShape, numbers: _Numbers) -> Iterator[Case]:
    scale, window = shape.head_dim**-0.5, shape.window
    lengths = _KEYS if window is None else (*_KEYS, min(window, _LONGEST) + _BEYOND)
    for op, rows, length in (
        *(("causal_attention", 1, length) for length in lengths),
        ("causal_attention", _ROWS, _ROWS + lengths[-1]),
        ("run_attention", _ROWS, _ROWS + lengths[-1]),
    ):
        inputs = (
            numbers.rough(rows, shape.heads, shape.head_dim),
            *(numbers.rough(length, shape.kv_heads, shape.head_dim) for _ in range(2)),
        )

        def call(
            ops: Ops, dtype: torch.dtype, op: str = op, inputs: tuple[Tensor, ...] = inputs
        ) -> list[Tensor]:
            return [getattr(ops, op)(*(each.to(dtype) for each in inputs), scale, window)]

        yield _attended(op, call, inputs, scale, numbers.dtype)


def _full_attention(shape: FullAttentionShape, numbers: _Numbers) -> Iterator[Case]:
    scale = shape.head_dim**-0.5
    inputs = tuple(numbers.rough(_KEYS[-1], shape.heads, shape.head_dim) for _ in range(3))

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        queries, keys, values = (each.to(dtype) for each in inputs)
        return [ops.full_attention(queries, keys, values, scale)]

    yield _attended("full_attention", call, inputs, scale, numbers.dtype)


def _attended(
    op: str,
    call: Callable[[Ops, torch.dtype], list[Tensor]],
    inputs: tuple[Tensor, ...],
    scale: float,
    dtype: torch.dtype,
) -> Case:
    """Attention of queries, keys and values that were drawn."""
    queries, keys, values = inputs
    # A score's error is the exponent's, and so that of a probability. Two exponentials, sums over
    # a step, over the splits' steps and over the splits follow.
    largest = scale * float(queries.abs().max() * keys.abs().sum(-1).max())
    ulps = largest * queries.shape[-1].bit_length() + 64
    # Of many tokens the probabilities are multiplied in the model's type.
    if dtype == torch.bfloat16 and queries.shape[0] > 1:
        ulps += 2**14
    return Case(op, dtype, call, ulps, float(values.abs().max()))


def _convolution(
    shape: DeltaShape | Mamba1Shape | Mamba2Shape, numbers: _Numbers
) -> Iterator[Case]:
    before, channels = shape.taps - 1, sum(shape.widths)
    rows, weight = numbers.rough(before + _ROWS, channels), numbers.exact(shape.taps, channels)
    bias = numbers.exact(channels)

    # Mamba-1 multiplies matrices by what it gives.
    rounded = isinstance(shape, Mamba1Shape)

    def run(ops: Ops, dtype: torch.dtype, bias: Tensor | None) -> list[Tensor]:
        result = dtype if rounded else torch.float32
        return [ops.convolve(rows.to(dtype), weight, bias, result)]

    def step(ops: Ops, dtype: torch.dtype, bias: Tensor | None) -> list[Tensor]:
        tail, row = rows[:before].to(dtype, copy=True), rows[before : before + 1].to(dtype)
        result = dtype if rounded else torch.float32
        return [ops.causal_conv_step(row, tail, weight, bias, result), tail.float()]

    # Products are added one by one; silu is nowhere steeper than 1.1.
    most = shape.taps * rows.abs().max() * weight.abs().max() + bias.abs().max()
    for each in (bias, None):
        for name, call in (("convolve", run), ("causal_conv_step", step)):
            yield Case(name, numbers.dtype, partial(call, bias=each), 24, 1.1 * float(most))


def _delta_gates(shape: DeltaShape, numbers: _Numbers) -> Iterator[Case]:
    steps = numbers.rough(9, 2 * shape.value_heads)
    rate, bias = -numbers.exact(shape.value_heads).abs(), numbers.exact(shape.value_heads)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        step, beta = (4 * steps).to(dtype).chunk(2, dim=1)
        return list(ops.delta_gates(step, beta, rate, bias))

    # log(1 + x) of a small x is off by as many ULP as 1 + x has more.
    yield Case("delta_gates", numbers.dtype, call, 16, float(rate.abs().max()))


def _delta_rule(shape: DeltaShape, numbers: _Numbers) -> Iterator[Case]:
    columns = numbers.exact(_ROWS, sum(shape.widths))
    decay = -0.1 * numbers.exact(_ROWS, shape.value_heads).abs()
    beta = numbers.exact(_ROWS, shape.value_heads).sigmoid()
    state = numbers.exact(shape.value_heads, shape.key_dim, shape.value_dim)
    # Outputs and state add up dk + 64 products. Lengths, decays and exponentials add some, and a
    # decay is e to the difference of two sums: off by as many ULP as those are large.
    ulps = 2 * (shape.key_dim + CHUNK + 32 + float(decay.sum(0).abs().max()))

    def call(ops: Ops, name: str, count: int) -> list[Tensor]:
        queries, keys, values = columns[:count].split(shape.widths, dim=1)
        after = state.clone()
        heads = (
            queries.unflatten(1, (shape.key_heads, -1)),
            keys.unflatten(1, (shape.key_heads, -1)),
            values.unflatten(1, (shape.value_heads, -1)),
        )
        outputs = getattr(ops, name)(*heads, decay[:count], beta[:count], state=after)
        return [outputs, after]

    for name, count in (("chunked_gated_delta_", _ROWS), ("recurrent_gated_delta_step", 1)):

        def named(
            ops: Ops, dtype: torch.dtype, name: str = name, count: int = count
        ) -> list[Tensor]:
            return call(ops, name, count)

        yield Case(name, numbers.dtype, named, ulps, 0.0)


def _time_steps(shape: Mamba1Shape | Mamba2Shape, numbers: _Numbers) -> Iterator[Case]:
    count = shape.time_steps
    steps, bias = 4 * numbers.rough(9, count + 3), numbers.exact(count)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        rows = steps.to(dtype)[:, :count]
        return [ops.time_steps(rows, bias, 0.5, 0.001, 3.0)]

    # As of `_delta_gates`.
    yield Case("time_steps", numbers.dtype, call, 16, 1.0)


def _scan(shape: Mamba1Shape, numbers: _Numbers) -> Iterator[Case]:
    inputs = numbers.rough(_ROWS, 2 * shape.channels)
    both = numbers.rough(_ROWS, 2 * shape.state_dim)
    steps = 0.1 * numbers.exact(_ROWS, shape.channels).abs()
    rate, skip = (
        -numbers.exact(shape.state_dim, shape.channels).abs(),
        numbers.exact(shape.channels),
    )
    state = numbers.exact(shape.state_dim, shape.channels)
    # As of `_state_space`; a decay is rounded for each token that it is multiplied by.
    ulps = 2 * (shape.state_dim + 3 * _ROWS + 32)

    def call(ops: Ops, dtype: torch.dtype, name: str, count: int) -> list[Tensor]:
        b, c = both.to(dtype)[:count].chunk(2, dim=1)
        rows = inputs.to(dtype)[:count, : shape.channels]
        after = state.clone()
        outputs = getattr(ops, name)(rows, b, c, steps[:count], rate, skip, state=after)
        return [outputs, after]

    for name, count in (("mamba1_run_", _ROWS), ("mamba1_step", 1)):
        yield Case(name, numbers.dtype, partial(call, name=name, count=count), ulps, 0.0)


def _state_space(shape: Mamba2Shape, numbers: _Numbers) -> Iterator[Case]:
    columns = numbers.exact(_ROWS, sum(shape.widths))
    steps = 0.1 * numbers.exact(_ROWS, shape.heads).abs()
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
        return [getattr(ops, name)(*rows, rate, skip, state=after), after]

    for name, count in (("mamba2_run_", _ROWS), ("mamba2_step", 1)):
        yield Case(name, numbers.dtype, partial(call, name=name, count=count), ulps, 0.0)


def _group_norm(shape: GroupNormShape, numbers: _Numbers) -> Iterator[Case]:
    rows, whole = numbers.exact(5, shape.groups, shape.width), shape.groups * shape.width
    gate, scale = numbers.rough(5, whole + 3), 1 + 0.2 * numbers.exact(whole)

    def call(ops: Ops, dtype: torch.dtype, scale: Tensor | None, gate_first: bool) -> list[Tensor]:
        opened = gate.to(dtype)[:, :whole]
        return [ops.gated_group_norm(rows, scale, opened, _EPSILON, 0.5, gate_first)]

    for each, gate_first in ((None, False), (scale, False), (scale, True)):
        named = partial(call, scale=each, gate_first=gate_first)
        yield Case("gated_group_norm", numbers.dtype, named, shape.width.bit_length() + 32)


def _routing(shape: ExpertShape, numbers: _Numbers) -> Iterator[Case]:
    logits = 2 * numbers.rough(9, shape.count + 1)
    logits[0, :] = 0  # of equal experts the first

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        given = logits.to(dtype)[:, : shape.count]
        ids, weights = ops.route(given, shape.top_k, shape.normalise)
        return [ids.float(), weights]

    # An exponent is the difference of two logits; all of them are added up.
    ulps = shape.count + 2 * float(logits.abs().max()) + 32
    yield Case("route", numbers.dtype, call, ulps, 0.0)


def _experts(shape: ExpertShape, numbers: _Numbers) -> Iterator[Case]:
    count = min(_FEW_EXPERTS, shape.count)
    k = min(2, count)
    weights = [
        (numbers.rough(2 * shape.inner, shape.width), numbers.rough(shape.width, shape.inner))
        for _ in range(count)
    ]
    rows = numbers.rough(_ROWS, shape.width)
    ids = torch.arange(_ROWS, device=rows.device) % (count - k + 1)
    chosen = torch.stack([ids + place for place in range(k)], dim=1).to(torch.int32)

    def call(ops: Ops, dtype: torch.dtype, is_step: bool) -> list[Tensor]:
        up, down = ([PlainMatrix(pair[which].to(dtype)) for pair in weights] for which in (0, 1))
        bank = ops.experts(up, down, torch.add)
        hidden, pairs = (rows[:1], chosen[:1]) if is_step else (rows, chosen)
        places, found = bank(hidden.to(dtype), pairs, is_step)
        return [found if places is None else found[places]]

    # Two products one after the other; what comes of the first is rounded to the model's type.
    rounded = 2**16 if numbers.dtype == torch.bfloat16 else 0
    ulps = 4 * (shape.width + shape.inner) + rounded
    for is_step in (False, True):

        def either(ops: Ops, dtype: torch.dtype, is_step: bool = is_step) -> list[Tensor]:
            return call(ops, dtype, is_step)

        yield Case("experts", numbers.dtype, either, ulps, 0.0)


def _weighted_sum(shape: ExpertShape, numbers: _Numbers) -> Iterator[Case]:
    k = shape.top_k
    rows, weights = numbers.rough(9 * k, shape.width), numbers.exact(9, k).softmax(1)
    shared, gate = numbers.rough(9, shape.width), numbers.rough(9, 3)
    places = torch.arange(9 * k, device=rows.device).flip(0)

    def call(ops: Ops, dtype: torch.dtype, places: Tensor | None, is_shared: bool) -> list[Tensor]:
        beside = (shared.to(dtype), gate.to(dtype)[:, 1:2]) if is_shared else (None, None)
        return [ops.weighted_sum(places, rows.to(dtype), weights, *beside)]

    for where in (None, places):

        def either(ops: Ops, dtype: torch.dtype, where: Tensor | None = where) -> list[Tensor]:
            return call(ops, dtype, where, shape.shared)

        yield Case("weighted_sum", numbers.dtype, either, k + 16, 2 * float(rows.abs().max()))


_MADE_FOR: dict[type[OpShape], list[Callable[[Any, _Numbers], Iterator[Case]]]] = {
    NormShape: [_norm],
    GateShape: [_gate],
    SquaredReluShape: [_squared_relu],
    OpenGateShape: [_open_gate],
    SumShape: [_sum],
    RotationShape: [_rotation],
    AttentionShape: [_attention],
    FullAttentionShape: [_full_attention],
    DeltaShape: [_convolution, _delta_gates, _delta_rule],
    Mamba1Shape: [_convolution, _time_steps, _scan],
    Mamba2Shape: [_convolution, _time_steps, _state_space],
    GroupNormShape: [_group_norm],
    ExpertShape: [_routing, _experts, _weighted_sum],
}
