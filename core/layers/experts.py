"""Sparse experts: many feed-forward layers, of which each token goes through a few.

Shazeer et al. 2017, arXiv:1701.06538: a token goes through those that a router's scores are largest
for; perhaps through one more that every token goes through, as it is or behind a gate of its own.
What decides, the router and that gate, is never quantised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.mlp import SwiGLU
from core.layers.rows import in_row_blocks
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, GateShape, Routing, SquaredReluShape, SumShape
from kernels.experts.reference import ExpertBank, gated


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
    """`count` experts of `inner` numbers, of which a token goes through some by `routing`.

    `shared` are the numbers of the one that every token goes through behind a gate, None where
    there is none. Experts are SwiGLU if `gated`, else squared ReLU. `latent` is the width of what
    they read and give where that is not `hidden`.
    """

    hidden: int
    inner: int
    count: int
    routing: Routing
    shared: int | None = None
    gated: bool = True
    latent: int | None = None

    @property
    def width(self) -> int:
        """Numbers of what an expert reads."""
        return self.latent or self.hidden

    @property
    def shape(self) -> ExpertShape:
        """As kernels want to know it."""
        shared = bool(self.shared)
        return ExpertShape(self.width, self.inner, self.count, self.routing, shared, self.gated)


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
        width, count = sizes.hidden, sizes.count
        self.sizes = sizes
        self._ops = weights.ops(sizes.shape)
        deciding = [(router, count)]
        if sizes.shared:
            deciding.append(("shared_expert_gate", 1))
        self.router = JoinedLinear(weights.exact(), deciding, width, input_norm=input_norm)
        self._correction = None
        if sizes.routing.sigmoid:
            name = "e_score_correction_bias"
            correction = weights.scope(router).tensor(name, (count,), torch.float32)
            # By what is no number nobody could be chosen: such an expert is the first, or the last.
            self._correction = correction.nan_to_num()
        self.into = self.back = None
        if sizes.latent:
            parts = [("fc1_latent_proj", sizes.latent)]
            self.into = JoinedLinear(weights, parts, width, input_norm=input_norm)
            self.back = Linear(weights, "fc2_latent_proj", sizes.latent, width)
            input_norm = None
        self.bank = self._bank(weights.scope("experts"), input_norm)
        self.shared = None
        if sizes.shared:
            scope = weights.scope("shared_expert")
            self.shared = SwiGLU(scope, width, sizes.shared, input_norm=input_norm)

    def _bank(self, weights: Weights, input_norm: InputNorm | None) -> ExpertBank:
        sizes, ops = self.sizes, self._ops
        inner, width = sizes.inner, sizes.width
        if sizes.gated:
            weights.ops(GateShape(inner))
            parts, stack = [("gate_proj", inner), ("up_proj", inner)], "gate_up_proj"
            activation = gated(ops.swiglu)
        else:
            weights.ops(SquaredReluShape(inner))
            parts, stack, activation = [("up_proj", inner)], "up_proj", ops.squared_relu
        shapes = {stack: (len(parts) * inner, width), "down_proj": (width, inner)}
        make = partial(weights.matrices, sizes.count, transposed=weights.transposed(shapes))
        return ops.experts(
            make(parts, width, stack, input_norm=input_norm),
            make([("down_proj", width)], inner, "down_proj"),
            activation,
        )

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        sizes = self.sizes
        # Of each of a token's experts: what it reads, three rows on its way, what it gives.
        numbers = sizes.routing.k * (3 * sizes.inner + 2 * sizes.width)
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, numbers)

    def _block(self, hidden: Tensor, is_step: bool) -> Tensor:
        logits, *gates = self.router(hidden, is_step)
        ids, weights = self._ops.route(logits, self.sizes.routing, self._correction)
        given = self.into(hidden, is_step)[0] if self.into else hidden
        places, rows = self.bank(given, ids, is_step)
        if self.shared is None:
            total = self._ops.weighted_sum(places, rows, weights, None, None)
            return self.back(total, is_step) if self.back else total
        shared = self.shared(hidden, is_step)
        return self._ops.weighted_sum(places, rows, weights, shared, gates[0])


class WithShared:
    """The sum of two feed-forward layers that read the same: sparse experts, and one that every
    token goes through."""

    def __init__(self, weights: Weights, width: int, sparse: FeedForward, shared: FeedForward):
        self.sparse, self.shared = sparse, shared
        self._add = weights.ops(SumShape(width)).add

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        return self._add(self.sparse(hidden, is_step), self.shared(hidden, is_step))
