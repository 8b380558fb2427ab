"""Routing tokens to experts, their products, and the sum of those."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kernels.common.shapes import ExpertShape
from kernels.experts.reference import gated
from kernels.linear.reference import PlainMatrix
from kernels.ops import Ops
from kernels.self_test.case import ROWS, Case, Numbers

# All of a model's are gigabytes; of the largest releases one is.
_FEW_EXPERTS = 2
_BLOCK = 512  # no kernel takes more inner numbers at once


def routing(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    """Logits in which several experts are equal."""
    logits = 2 * numbers.rough(9, shape.count + 1)
    logits[0, :] = 0  # of equal experts the first
    # In steps, so that experts that were equal often still are.
    correction = (2 * numbers.exact(shape.count)).round() / 4 if shape.routing.sigmoid else None

    def call(ops: Ops, dtype: torch.dtype) -> list[Tensor]:
        given = logits.to(dtype)[:, : shape.count]
        ids, weights = ops.route(given, shape.routing, correction)
        return [ids.float(), weights]

    # An exponent is the difference of two logits; all of them are added up.
    ulps = shape.count + 2 * float(logits.abs().max()) + 32
    yield Case("route", numbers.dtype, call, ulps, 0.0)


def experts(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    """A run and a step through two experts, of which the inner numbers of one block and of what is
    left beside blocks are enough."""
    count = min(_FEW_EXPERTS, shape.count)
    inner = shape.inner if shape.inner < 2 * _BLOCK else _BLOCK + shape.inner % _BLOCK
    taken = (2 if shape.gated else 1) * inner
    weights = [
        (numbers.rough(taken, shape.width), numbers.rough(shape.width, inner)) for _ in range(count)
    ]
    # Something simple of the right width.
    activation = gated(torch.add) if shape.gated else lambda rows: rows + rows
    rows = numbers.rough(ROWS, shape.width)
    ids = torch.arange(ROWS * count, dtype=torch.int32, device=rows.device) % count
    both, in_turn = ids.view(ROWS, count), ids[:ROWS, None]

    def call(ops: Ops, dtype: torch.dtype, chosen: Tensor) -> list[Tensor]:
        up, down = ([PlainMatrix(pair[which].to(dtype)) for pair in weights] for which in (0, 1))
        bank = ops.experts(up, down, activation)
        is_step = len(chosen) == 1
        places, found = bank(rows[: len(chosen)].to(dtype), chosen, is_step)
        return [found if places is None else found[places]]

    # Two products one after the other; what comes of the first is rounded to the model's type.
    rounded = 2**16 if numbers.dtype == torch.bfloat16 else 0
    ulps = 4 * (shape.width + inner) + rounded
    for chosen in (both, in_turn, both[:1]):

        def each(ops: Ops, dtype: torch.dtype, chosen: Tensor = chosen) -> list[Tensor]:
            return call(ops, dtype, chosen)

        yield Case("experts", numbers.dtype, each, ulps, 0.0)


def weighted_sum(shape: ExpertShape, numbers: Numbers) -> Iterator[Case]:
    """Results where they lie and elsewhere, perhaps with the expert that all share."""
    k = shape.routing.k
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
