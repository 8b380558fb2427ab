"""Sizes by which kernels are chosen before weights are read; inputs of layers with a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True, slots=True)
class NormShape:
    """The `passed` numbers after `width` are not normalised; a gate is silu's or, with `sigmoid`, a
    sigmoid."""

    width: int
    gated: bool = False
    passed: int = 0
    sigmoid: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    sinks: bool = False


@dataclass(frozen=True, slots=True)
class FullAttentionShape:
    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class RotationShape:
    heads: int
    head_dim: int
    rotary_dim: int


@dataclass(frozen=True, slots=True)
class DeltaShape:
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    taps: int
    by_channel: bool = False

    @property
    def decays(self) -> int:
        """Log decays of a token: one a value head or, `by_channel`, one a number of its key."""
        return self.value_heads * (self.key_dim if self.by_channel else 1)

    @property
    def widths(self) -> list[int]:
        """Columns of queries, keys and values."""
        key_width = self.key_heads * self.key_dim
        return [key_width, key_width, self.value_heads * self.value_dim]


@dataclass(frozen=True, slots=True)
class Mamba1Shape:
    channels: int
    state_dim: int
    taps: int

    @property
    def widths(self) -> list[int]:
        return [self.channels]


@dataclass(frozen=True, slots=True)
class Mamba2Shape:
    """`groups` of heads share B and C."""

    heads: int
    head_dim: int
    groups: int
    state_dim: int
    taps: int

    @property
    def widths(self) -> list[int]:
        """Columns of the inputs, B and C."""
        group_width = self.groups * self.state_dim
        return [self.heads * self.head_dim, group_width, group_width]


@dataclass(frozen=True, slots=True)
class ShortConvShape:
    channels: int
    taps: int


@dataclass(frozen=True, slots=True)
class GroupNormShape:
    groups: int
    width: int


class Clamp(NamedTuple):
    slope: float
    limit: float


@dataclass(frozen=True, slots=True)
class GateShape:
    width: int
    gelu: bool = False
    clamp: Clamp | None = None


@dataclass(frozen=True, slots=True)
class SquaredReluShape:
    width: int


@dataclass(frozen=True, slots=True)
class OpenGateShape:
    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class SumShape:
    width: int


@dataclass(frozen=True, slots=True)
class Routing:
    """How a token's `k` experts are chosen and weighted.

    A score is the expert's softmax share, or with `sigmoid` the sigmoid of its logit, to which a
    correction is added for the choice alone. Of equal `groups` of experts, only the `open_groups`
    whose two best scores have the largest sums are considered. A weight is the score, divided by
    the chosen scores' sum if `normalise`, times `scale`.
    """

    k: int
    normalise: bool = True
    sigmoid: bool = False
    groups: int = 1
    open_groups: int = 1
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """`count` experts, `width` numbers in and out and `inner` inside.

    `gated`: half of the first product gates the other, through silu, gelu or a `clamp`; `shared`:
    one more expert, behind a gate, is for all tokens; `factors`: experts have factors for their
    weights.
    """

    width: int
    inner: int
    count: int
    routing: Routing
    shared: bool
    gated: bool = True
    gelu: bool = False
    factors: bool = False
    clamp: Clamp | None = None
    bias: bool = False


OpShape = (
    NormShape
    | GateShape
    | OpenGateShape
    | SumShape
    | AttentionShape
    | FullAttentionShape
    | RotationShape
    | DeltaShape
    | Mamba1Shape
    | Mamba2Shape
    | GroupNormShape
    | ShortConvShape
    | SquaredReluShape
    | ExpertShape
)


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
