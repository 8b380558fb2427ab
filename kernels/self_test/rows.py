"""Self-test cases of operations on rows, and of attention.

Bounds are in float32 ULP. Kernel and reference err by at most half an ULP for each addition, and a
GPU's roots, exponentials and sigmoids by a few more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from kernels.common.shapes import (
    AttentionShape,
    FullAttentionShape,
    GateShape,
    GroupNormShape,
    NormShape,
    OpenGateShape,
    RotationShape,
    SquaredReluShape,
    SumShape,
)
from kernels.gated_delta.reference import CHUNK
from kernels.ops import Ops

EPSILON = 1e-6
FEW = 3  # tokens of a step
ROWS = CHUNK + 1  # of a run: one chunk of the delta rule, and the first row of another


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the operation `op`.

    `call(ops, dtype)` makes it on the same numbers each time, those of the model's type in `dtype`.
    It may be off by `ulps` ULP of each number, or of the largest if there is a `magnitude`, which
    is its least.
    """

    op: str
    dtype: torch.dtype
    call: Callable[[Ops, torch.dtype], list[Tensor]]
    ulps: float
    magnitude: float | None = None


class Numbers:
    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._generator = torch.Generator().manual_seed(0)

    def exact(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator).to(self.device)

    def rough(self, *shape: int) -> Tensor:
        """Float32 that the model's type can represent."""
        return self.exact(*shape).to(self.dtype).float()


def _norm(shape: NormShape, numbers: Numbers) -> Iterator[Case]:
    width, whole = shape.width, shape.width + shape.passed
    rows, scale = numbers.rough(5, 3, width + whole), 1 + 0.2 * numbers.exact(width)
    gate = numbers.rough(5, 3, width)

    def hidden(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.rms_norm(rows[:, 0, :whole].to(dtype), scale, EPSILON)]

    def heads(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.rms_norm(rows.to(dtype)[..., :whole], scale, EPSILON)]

    # Sums that every type can hold: what is tried is not how a sum is rounded.
    steps = (8 * numbers.exact(2, 5, width)).round().clamp(-40, 40) / 8

    def after_sum(ops: Ops, dtype: torch.dtype, multiplier: float = 1.0) -> list[Tensor]:
        inputs, residual = steps.to(dtype)
        return list(ops.add_rms_norm(inputs, residual, scale, EPSILON, multiplier))

    def gated(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        given = rows[..., :width], scale, gate.to(dtype)
        return [ops.gated_rms_norm(*given, EPSILON, dtype, shape.sigmoid)]

    # Squares are added up in a tree, or one by one in a few lanes; half of that shows.
    ulps = width.bit_length() + 16
    if shape.gated:
        yield Case("gated_rms_norm", numbers.dtype, gated, ulps)
    else:
        yield Case("rms_norm", numbers.dtype, hidden, ulps)
        yield Case("rms_norm", numbers.dtype, heads, ulps)
        yield Case("add_rms_norm", numbers.dtype, after_sum, ulps)
        yield Case("add_rms_norm", numbers.dtype, partial(after_sum, multiplier=0.5), ulps)


def _group_norm(shape: GroupNormShape, numbers: Numbers) -> Iterator[Case]:
    rows, whole = numbers.exact(5, shape.groups, shape.width), shape.groups * shape.width
    gate, scale = numbers.rough(5, whole + 3), 1 + 0.2 * numbers.exact(whole)

    def call(ops: Ops, dtype: torch.dtype, scale: Tensor | None, gate_first: bool) -> list[Tensor]:
        opened = gate.to(dtype)[:, :whole]
        return [ops.gated_group_norm(rows, scale, opened, EPSILON, 0.5, gate_first)]

    for each, gate_first in ((None, False), (scale, False), (scale, True)):
        named = partial(call, scale=each, gate_first=gate_first)
        yield Case("gated_group_norm", numbers.dtype, named, shape.width.bit_length() + 32)


def _gate(shape: GateShape, numbers: Numbers) -> Iterator[Case]:
    both = numbers.rough(9, 2 * shape.width)

    def call(ops: Ops, dtype: torch.dtype, multiplier: float = 1.0) -> list[Tensor]:
        gate, up = both.to(dtype).chunk(2, dim=1)
        if shape.clamp is not None:
            slope, limit = shape.clamp
            # Most are within the limit, some on either side of it.
            return [ops.clamped_swiglu(gate, up, slope, min(limit, 1.0))]
        return [ops.geglu(gate, up) if shape.gelu else ops.swiglu(gate, up, multiplier)]

    def opened(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.gelu(both.to(dtype))]

    # A cube in the exponent: off by as many ULP as that is large.
    ulps = 64 if shape.gelu else 16
    name = "geglu" if shape.gelu else "swiglu" if shape.clamp is None else "clamped_swiglu"
    # Plain torch's 1 + tanh of a gate far below zero keeps few of its places, which shows where no
    # gate is rounded anyway.
    magnitude = 0.0 if shape.gelu and numbers.dtype == torch.float32 else None
    ulps += _rounded_gate(numbers)
    yield Case(name, numbers.dtype, call, ulps, magnitude)
    if name == "swiglu":
        yield Case(name, numbers.dtype, partial(call, multiplier=0.5), ulps)
    if name == "geglu":
        yield Case("gelu", numbers.dtype, opened, ulps, magnitude)


def _rounded_gate(numbers: Numbers) -> int:
    """Plain torch also rounds a gate to the model's type; just below a power of two that error
    doubles."""
    return 2**16 if numbers.dtype == torch.bfloat16 else 0


def _squared_relu(shape: SquaredReluShape, numbers: Numbers) -> Iterator[Case]:
    rows = numbers.rough(9, shape.width)

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        return [ops.squared_relu(rows.to(dtype))]

    yield Case("squared_relu", numbers.dtype, call, 1)


def _open_gate(shape: OpenGateShape, numbers: Numbers) -> Iterator[Case]:
    attended = numbers.rough(9, shape.heads, shape.head_dim)
    gates = numbers.rough(9, shape.heads, 2 * shape.head_dim)

    def call(ops: Ops, dtype: torch.dtype, count: int) -> list[Tensor]:
        gate = gates.to(dtype)[..., shape.head_dim :][..., :count]
        return [ops.open_gate(attended.to(dtype), gate)]

    for count in {shape.head_dim, 1}:
        named = partial(call, count=count)
        yield Case("open_gate", numbers.dtype, named, 16 + _rounded_gate(numbers))


def _addition(shape: SumShape, numbers: Numbers) -> Iterator[Case]:
    first, second = numbers.rough(2, 9, shape.width)

    def call(ops: Ops, dtype: torch.dtype, multiplier: float, scale: float = 1.0) -> list[Tensor]:
        return [ops.add(first.to(dtype), second.to(dtype), multiplier, scale)]

    yield Case("add", numbers.dtype, partial(call, multiplier=1.0), 1)
    largest = float(first.abs().max())
    yield Case("add", numbers.dtype, partial(call, multiplier=0.3), 2, largest)
    yield Case("add", numbers.dtype, partial(call, multiplier=1.0, scale=0.5), 1)


def _rotation(shape: RotationShape, numbers: Numbers) -> Iterator[Case]:
    half = shape.rotary_dim // 2
    heads = numbers.rough(9, shape.heads, 2 * shape.head_dim)
    angles = 7 * numbers.exact(9, half)
    factors = [each.to(numbers.dtype).float() for each in (angles.cos(), angles.sin())]

    def call(ops: Ops, dtype: torch.dtype, *, wide: bool = False) -> list[Tensor]:
        cosine, sine = (each if wide else each.to(dtype) for each in factors)
        return [ops.rotate(heads.to(dtype)[..., : shape.head_dim], cosine, sine)]

    scale = 1 + 0.2 * numbers.exact(shape.head_dim)

    def normed(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        cosine, sine = (each.to(dtype) for each in factors)
        given = heads.to(dtype)[..., : shape.head_dim]
        return [ops.norm_rotate(given, scale, EPSILON, cosine, sine)]

    # A norm may be rounded to the model's type before it turns.
    rounded = 2**16 if numbers.dtype == torch.bfloat16 else 0
    ulps = shape.head_dim.bit_length() + 16 + rounded
    yield Case("norm_rotate", numbers.dtype, normed, ulps, 2 * float(heads.abs().max()))
    # Two products and their sum. Vision towers rotate in float32, whatever the model's type.
    for dtype in {numbers.dtype, torch.float32}:
        yield Case("rotate", dtype, call, 4, 2 * float(heads.abs().max()))
    # And some families in float32, with heads in the model's type.
    wide = partial(call, wide=True)
    yield Case("rotate", numbers.dtype, wide, 4, 2 * float(heads.abs().max()))


_KEYS = (1, 300)  # that one token sees; most splits of the context are empty, or none is
_BEYOND = 37  # keys that a window hides
_LONGEST = 4_096


def _attention(shape: AttentionShape, numbers: Numbers) -> Iterator[Case]:
    scale, window = shape.head_dim**-0.5, shape.window
    sinks = numbers.rough(shape.heads) if shape.sinks else None
    lengths = _KEYS if window is None else (*_KEYS, min(window, _LONGEST) + _BEYOND)
    for op, rows, length in (
        *(("causal_attention", 1, length) for length in lengths),
        *(("step_attention", 1, length) for length in lengths),
        *(("step_attention", FEW, length + FEW) for length in lengths),
        ("causal_attention", ROWS, ROWS + lengths[-1]),
        ("run_attention", ROWS, ROWS + lengths[-1]),
    ):
        inputs = (
            numbers.rough(rows, shape.heads, shape.head_dim),
            *(numbers.rough(length, shape.kv_heads, shape.head_dim) for _ in range(2)),
        )

        def call(
            ops: Ops, dtype: torch.dtype, op: str = op, inputs: tuple[Tensor, ...] = inputs
        ) -> list[Tensor]:
            return [getattr(ops, op)(*(each.to(dtype) for each in inputs), scale, window, sinks)]

        yield _attended(op, call, inputs, scale, numbers.dtype)


def _full_attention(shape: FullAttentionShape, numbers: Numbers) -> Iterator[Case]:
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
    queries, keys, values = inputs
    # A score's error is the exponent's, and so that of a probability. Two exponentials, sums over
    # a step, over the splits' steps and over the splits follow.
    largest = scale * float(queries.abs().max() * keys.abs().sum(-1).max())
    ulps = largest * queries.shape[-1].bit_length() + 64
    # Of many tokens the probabilities are multiplied in the model's type.
    if dtype == torch.bfloat16 and queries.shape[0] > 1 and op != "step_attention":
        ulps += 2**14
    return Case(op, dtype, call, ulps, float(values.abs().max()))


CASES: dict[type, tuple[Callable[..., Iterator[Case]], ...]] = {
    NormShape: (_norm,),
    GroupNormShape: (_group_norm,),
    GateShape: (_gate,),
    SquaredReluShape: (_squared_relu,),
    OpenGateShape: (_open_gate,),
    SumShape: (_addition,),
    RotationShape: (_rotation,),
    AttentionShape: (_attention,),
    FullAttentionShape: (_full_attention,),
}
"""Makers of cases by the shape that they take."""
