"""Attention of one token and of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from kernels.common.shapes import AttentionShape, FullAttentionShape
from kernels.ops import Ops
from kernels.self_test.case import FEW, ROWS, Case, Numbers

_KEYS = (1, 300)  # that one token sees; most splits of the context are empty, or none is
_BEYOND = 37  # keys that a window hides
_LONGEST = 4_096


def attention(shape: AttentionShape, numbers: Numbers) -> Iterator[Case]:
    """One token over keys of several numbers, a few after another, and a run after others and both
    ways."""
    scale, window = shape.head_dim**-0.5, shape.window
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
            return [getattr(ops, op)(*(each.to(dtype) for each in inputs), scale, window)]

        yield _attended(op, call, inputs, scale, numbers.dtype)


def full_attention(shape: FullAttentionShape, numbers: Numbers) -> Iterator[Case]:
    """The patches of a picture."""
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
    if dtype == torch.bfloat16 and queries.shape[0] > 1 and op != "step_attention":
        ulps += 2**14
    return Case(op, dtype, call, ulps, float(values.abs().max()))
