"""A block: a mixer and a feed-forward layer, each added to its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from core.layers.feed_forward import FeedForward
from core.layers.memory import Forward, LayerSpec
from core.layers.norm import RMSNorm
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import SumShape

MakeFeedForward = Callable[[Weights, int, InputNorm], FeedForward]
"""Makes a block's feed-forward layer: its scope, the index of the block, the norm before it."""


class Mixer(Protocol):
    @property
    def specs(self) -> tuple[LayerSpec, ...]: ...

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        """[n, width] -> [n, width]; `slot` is the first of its specs in the model's."""
        ...


@dataclass(frozen=True, slots=True)
class Norms:
    """Before and, in some families, after each half of a block; None before a half that normalises
    its own input."""

    mixer: RMSNorm | None
    feed_forward: RMSNorm | None
    after_mixer: RMSNorm | None = None
    after_feed_forward: RMSNorm | None = None


class HybridBlock:
    """x + a mixer(norm x), then x + b feed_forward(norm x), with `multipliers` (a, b); either half
    may be missing. `scale` multiplies the result."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        norms: Norms,
        mixer: Mixer | None,
        feed_forward: FeedForward | None,
        multipliers: tuple[float, float] = (1.0, 1.0),
        scale: float = 1.0,
    ) -> None:
        self.norms, self.mixer, self.feed_forward = norms, mixer, feed_forward
        self.multipliers, self.scale = multipliers, scale
        self._add = weights.ops(SumShape(width)).add

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return self.mixer.specs if self.mixer is not None else ()

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        norms = self.norms
        if self.mixer is None:
            normed = hidden if norms.feed_forward is None else norms.feed_forward(hidden)
        else:
            inputs = hidden if norms.mixer is None else norms.mixer(hidden)
            mixed = self.mixer(inputs, forward, slot)
            if norms.after_mixer is not None:
                mixed = norms.after_mixer(mixed)
            if self.feed_forward is None:
                return self._add(hidden, mixed, self.multipliers[0], self.scale)
            if norms.feed_forward is None:
                normed = hidden = self._add(hidden, mixed, self.multipliers[0])
            else:
                normed, hidden = norms.feed_forward.of_sum(mixed, hidden, self.multipliers[0])
        assert self.feed_forward is not None
        fed = self.feed_forward(normed, forward.memory.is_step)
        if norms.after_feed_forward is not None:
            fed = norms.after_feed_forward(fed)
        return self._add(hidden, fed, self.multipliers[1], self.scale)


class ParallelMixers:
    """second(norm x) + m first(norm' x)."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        first: tuple[RMSNorm, Mixer],
        second: tuple[RMSNorm, Mixer],
        multiplier: float,
    ) -> None:
        self.first, self.second, self.multiplier = first, second, multiplier
        self.specs = first[1].specs + second[1].specs
        self._add = weights.ops(SumShape(width)).add

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        (first_norm, first), (second_norm, second) = self.first, self.second
        mixed = first(first_norm(hidden), forward, slot)
        attended = second(second_norm(hidden), forward, slot + len(first.specs))
        return self._add(attended, mixed, self.multiplier)
