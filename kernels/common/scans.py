"""Inputs of layers with a state, as named tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor


class DeltaInputs(NamedTuple):
    """Gated delta rule, n tokens: queries, keys [n, hk, dk]; values [n, hv, dv]; log decay [n, hv]
    or, by channel, [n, hv, dk]; beta [n, hv].
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    decay: Tensor
    beta: Tensor

    def split(self, count: int) -> Iterator[DeltaInputs]:
        return map(DeltaInputs._make, zip(*(each.split(count) for each in self), strict=True))


class SpaceInputs(NamedTuple):
    """Mamba-1 or 2, n tokens: x, B, C, time steps [n, ..]; rates A and skips D of all tokens."""

    inputs: Tensor
    b: Tensor
    c: Tensor
    steps: Tensor
    rate: Tensor
    skip: Tensor

    def split(self, count: int) -> Iterator[SpaceInputs]:
        rows = zip(*(each.split(count) for each in self[:4]), strict=True)
        return (SpaceInputs._make((*each, self.rate, self.skip)) for each in rows)


DeltaRule = Callable[[DeltaInputs, Tensor], Tensor]
"""`rule(given, state)`: outputs [n, hv, dv] float32; `state` is updated in place."""
StateSpace = Callable[[SpaceInputs, Tensor], Tensor]
"""`space(given, state)`: outputs as `given.inputs` in float32; `state` is updated in place."""
