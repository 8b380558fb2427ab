"""Sparse experts: many feed-forward layers, of which each token goes through a few.

Shazeer et al. 2017, arXiv:1701.06538, in the form of Qwen: a softmax over all experts, of which the
most probable go on; perhaps one more expert that every token goes through, behind a gate of its
own. What decides, the router and that gate, is never quantised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from core.layers.linear import JoinedLinear
from core.layers.mlp import SwiGLU
from core.layers.rows import in_row_blocks
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, GateShape


class FeedForward(Protocol):
    """The second half of a block: dense, or sparse."""

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        ...


MakeFeedForward = Callable[[Weights, int, InputNorm], FeedForward]
"""Makes the feed-forward layer of a block from its scope, the block's place in the stack, and the
norm before it."""


@dataclass(frozen=True, slots=True)
class ExpertSizes:
    """`count` experts of `inner` numbers, of which a token goes through `top_k`.

    `normalise`: their weights add up to one. `shared` are the numbers of the one that every token
    goes through, None where there is none.
    """

    hidden: int
    inner: int
    count: int
    top_k: int
    normalise: bool
    shared: int | None = None

    @property
    def shape(self) -> ExpertShape:
        """As kernels want to know it."""
        return ExpertShape(
            self.hidden, self.inner, self.count, self.top_k, self.normalise, bool(self.shared)
        )


class SparseExperts:
    """The sum of a token's experts, by their weights; `input_norm` as in `JoinedLinear`."""

    def __init__(
        self,
        weights: Weights,
        sizes: ExpertSizes,
        input_norm: InputNorm | None = None,
        router: str = "gate",
    ) -> None:
        """`router` is the published name of what decides."""
        width, inner, count = sizes.hidden, sizes.inner, sizes.count
        self.sizes = sizes
        self._ops = weights.ops(sizes.shape, GateShape(inner))
        deciding = [(router, count)]
        if sizes.shared:
            deciding.append(("shared_expert_gate", 1))
        self.router = JoinedLinear(weights.deciding(), deciding, width, input_norm=input_norm)
        scope, parts = weights.scope("experts"), [("gate_proj", inner), ("up_proj", inner)]
        self.bank = self._ops.experts(
            scope.matrices(count, parts, width, "gate_up_proj", input_norm=input_norm),
            scope.matrices(count, [("down_proj", width)], inner, "down_proj"),
            self._ops.swiglu,
        )
        self.shared = None
        if sizes.shared:
            scope = weights.scope("shared_expert")
            self.shared = SwiGLU(scope, width, sizes.shared, input_norm=input_norm)

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        return in_row_blocks(partial(self._block, is_step=is_step), hidden)

    def _block(self, hidden: Tensor, is_step: bool) -> Tensor:
        logits, *gates = self.router(hidden, is_step)
        ids, weights = self._ops.route(logits, self.sizes.top_k, self.sizes.normalise)
        places, rows = self.bank(hidden, ids, is_step)
        if self.shared is None:
            return self._ops.weighted_sum(places, rows, weights, None, None)
        shared = self.shared(hidden, is_step)
        return self._ops.weighted_sum(places, rows, weights, shared, gates[0])
