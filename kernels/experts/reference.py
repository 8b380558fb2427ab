"""Sparse experts in plain torch: routing, a loop over the chosen experts, and their sum.

After Shazeer et al. 2017, arXiv:1701.06538, and DeepSeek-V3, arXiv:2412.19437. Results are added up
in ascending order of experts, so no bit depends on which tokens share a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from kernels.common.shapes import Routing
from kernels.linear.reference import Matrix

Activation = Callable[[Tensor], Tensor]
"""The function applied between an expert's two products."""


def gated(product: Callable[[Tensor, Tensor], Tensor]) -> Activation:
    """`product` of the halves of a row, such as `swiglu`."""
    return lambda rows: product(*rows.chunk(2, dim=1))


class ExpertBank(Protocol):
    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """`hidden` [n, width], each row through its experts `ids` [n, k] -> rows [n * k, width].

        Also returns the row of each (token, expert) pair, int64 [n * k], or None if rows are in the
        order of the pairs. `is_step` as in `Matrix.step`.
        """
        ...


MakeBank = Callable[[Sequence[Matrix], Sequence[Matrix], Activation], ExpertBank]
"""A bank of each expert's matrices: up, the one to its gate above it if it has one, and down."""


def route(
    logits: Tensor,
    routing: Routing,
    correction: Tensor | None = None,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The chosen experts, int32 [n, k] ascending, and their weights, float32 [n, k].

    Of equal scores the first are taken, among experts and groups. `correction` [experts] float32 is
    added to sigmoids for the choice alone; `factors` [experts] float32 multiply the weights.
    """
    floats = logits.float()
    scores = floats.sigmoid() if routing.sigmoid else floats.softmax(1)
    # Of a softmax logits are compared: its shares may round to the same number.
    ranks = scores if routing.sigmoid else floats
    if routing.sigmoid and correction is not None:
        ranks = ranks + correction
    if routing.groups > 1:
        ranks = ranks.masked_fill(~_open(ranks, routing), -torch.inf)
    ids = _largest(ranks, routing.k).sort(1).values
    weights = scores.gather(1, ids)
    if routing.normalise:
        weights = weights / (weights.sum(1, keepdim=True) + 1e-20)  # sigmoids may all be 0
    weights = weights * routing.scale
    return ids.to(torch.int32), weights if factors is None else weights * factors[ids]


def _largest(numbers: Tensor, k: int) -> Tensor:
    return numbers.sort(dim=1, descending=True, stable=True).indices[:, :k]


def _open(ranks: Tensor, routing: Routing) -> Tensor:
    """The experts in groups that are chosen from."""
    by_group = ranks.unflatten(1, (routing.groups, -1))
    best = by_group.topk(2, dim=2).values.sum(2)
    chosen = torch.zeros_like(best, dtype=torch.bool)
    chosen.scatter_(1, _largest(best, routing.open_groups), True)
    return chosen.repeat_interleave(by_group.shape[2], dim=1)


def weighted_sum(
    places: Tensor | None,
    rows: Tensor,
    weights: Tensor,
    shared: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """An `ExpertBank`'s rows times `weights` [n, k], added up for each token: [n, width].

    Plus `shared` [n, width] times the sigmoid of `gate` [n, 1]. Summed in float32, expert by
    expert, and rounded once.
    """
    by_token = (rows if places is None else rows[places]).unflatten(0, weights.shape)
    total: Tensor = by_token[:, 0].float() * weights[:, :1]
    for choice in range(1, weights.shape[1]):
        total += by_token[:, choice].float() * weights[:, choice : choice + 1]
    if shared is not None and gate is not None:
        total += shared.float() * gate.float().sigmoid()
    return total.to(rows.dtype)


def sorted_pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
    """(Token, expert) pairs in order of experts, and the position of each in that order."""
    order = ids.flatten().sort(stable=True).indices
    places = torch.empty_like(order)
    places[order] = torch.arange(order.shape[0], device=order.device)
    return order, places


class LoopedExperts(ExpertBank):
    def __init__(
        self, up: Sequence[Matrix], down: Sequence[Matrix], activation: Activation
    ) -> None:
        self._up, self._down, self._activation = up, down, activation

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        order, places = sorted_pairs(ids)
        given, results = hidden[order // ids.shape[1]], []
        counts = torch.bincount(ids.flatten(), minlength=len(self._down)).tolist()
        for expert, rows in enumerate(given.split(counts)):
            if rows.shape[0] > 0:
                results.append(self._one(expert, rows, is_step))
        return places, torch.cat(results)

    def _one(self, expert: int, rows: Tensor, is_step: bool) -> Tensor:
        up, down = self._up[expert], self._down[expert]
        inner = self._activation(up.step(rows) if is_step else up(rows))
        return down.step(inner) if is_step else down(inner)
