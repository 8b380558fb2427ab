"""The sizes that layers call their operations with, as far as kernels are chosen by them.

A layer names its own when it asks for its operations. So what a model will call is known before it
is read, and can be tried out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NormShape:
    """RMS norm over rows of so many numbers, perhaps times silu of a gate."""

    width: int
    gated: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Heads of one attention layer, perhaps with a window."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class FullAttentionShape:
    """Heads of a vision tower's attention."""

    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class RotationShape:
    """Heads of which `rotary_dim` numbers turn."""

    heads: int
    head_dim: int
    rotary_dim: int


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """Heads of one gated delta net, and the taps of its convolution."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    taps: int

    @property
    def widths(self) -> list[int]:
        """Columns of queries, keys and values."""
        key_width = self.key_heads * self.key_dim
        return [key_width, key_width, self.value_heads * self.value_dim]


@dataclass(frozen=True, slots=True)
class Mamba1Shape:
    """Channels of one Mamba-1 mixer, the states of each, and the taps of its convolution."""

    channels: int
    state_dim: int
    taps: int

    @property
    def widths(self) -> list[int]:
        """Columns that are convolved."""
        return [self.channels]


@dataclass(frozen=True, slots=True)
class Mamba2Shape:
    """Heads of one Mamba-2 mixer, groups that share what they read and write, and the taps of its
    convolution."""

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
    """Channels of one gated short convolution, and its taps."""

    channels: int
    taps: int


@dataclass(frozen=True, slots=True)
class GroupNormShape:
    """RMS norm of groups of so many numbers, with a gate."""

    groups: int
    width: int


@dataclass(frozen=True, slots=True)
class GateShape:
    """Rows of so many numbers, each opened by silu of another, or by gelu."""

    width: int
    gelu: bool = False


@dataclass(frozen=True, slots=True)
class SquaredReluShape:
    """Rows of so many numbers, squared where they are above zero."""

    width: int


@dataclass(frozen=True, slots=True)
class OpenGateShape:
    """Heads of so many numbers, each opened by the sigmoid of another."""

    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class SumShape:
    """Rows of so many numbers, added up in twos."""

    width: int


@dataclass(frozen=True, slots=True)
class Routing:
    """How a token's `k` experts are chosen, and what they weigh.

    What an expert scores is its share of a softmax over all of them, or with `sigmoid` the sigmoid
    of its own logit, to which a correction is added for the choice alone. Then experts may come in
    `groups` of equal size, of which the `open_groups` with the largest sums of two scores are
    chosen from. A weight is the score, divided by the sum over the chosen ones if `normalise`,
    times `scale`.
    """

    k: int
    normalise: bool = True
    sigmoid: bool = False
    groups: int = 1
    open_groups: int = 1
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """`count` experts over rows of `width` numbers, `inner` inside, which a token takes by
    `routing`; `gated`: half of what goes in opens the other; `shared`: beside one that all tokens
    take, behind a gate."""

    width: int
    inner: int
    count: int
    routing: Routing
    shared: bool
    gated: bool = True


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
