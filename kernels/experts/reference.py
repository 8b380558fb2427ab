"""Sparse experts in plain torch: routing, a loop over the experts that were chosen, and their sum.

Shazeer et al. 2017, arXiv:1701.06538, in the form of Qwen: a softmax over all experts, of which the
k largest go on. A token's experts are named in ascending order, and their results are added up in
that order, so that no bit depends on which tokens share a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from kernels.linear.reference import Matrix

GatedProduct = Callable[[Tensor, Tensor], Tensor]
"""As `kernels.pointwise.reference.swiglu`."""


class ExpertBank(Protocol):
    """The feed-forward layers of all experts, ready to be applied."""

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """`hidden` [n, width], each row through its experts `ids` [n, k] -> rows [n * k, width].

        Before them where the row of each pair of token and expert lies, int64 [n * k], None where
        they lie in the order of the pairs. `is_step` as in `Matrix.step`.
        """
        ...


MakeBank = Callable[[Sequence[Matrix], Sequence[Matrix], GatedProduct], ExpertBank]
"""A bank of each expert's matrices: to gate and up, one below the other, and down."""


def route(logits: Tensor, k: int, normalise: bool) -> tuple[Tensor, Tensor]:
    """The k most probable experts by `logits` [n, experts], and their weights.

    int32 [n, k] in ascending order and float32 [n, k]; with `normalise` a token's weights add up to
    one. Of equal logits the first are taken.
    """
    floats = logits.float()
    ids = floats.sort(dim=1, descending=True, stable=True).indices[:, :k].sort(1).values
    weights = floats.softmax(1).gather(1, ids)
    if normalise:
        weights = weights / weights.sum(1, keepdim=True)
    return ids.to(torch.int32), weights


def weighted_sum(
    places: Tensor | None,
    rows: Tensor,
    weights: Tensor,
    shared: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """What an `ExpertBank` gave, times `weights` [n, k], added up for each token: [n, width].

    Beside that `shared` [n, width], opened by the sigmoid of `gate` [n, 1]. In float32, one expert
    after the other, and rounded once.
    """
    by_token = (rows if places is None else rows[places]).unflatten(0, weights.shape)
    total: Tensor = by_token[:, 0].float() * weights[:, :1]
    for choice in range(1, weights.shape[1]):
        total += by_token[:, choice].float() * weights[:, choice : choice + 1]
    if shared is not None and gate is not None:
        total += shared.float() * gate.float().sigmoid()
    return total.to(rows.dtype)


def sorted_pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of token and expert in the order of their experts, and where each one is there."""
    order = ids.flatten().sort(stable=True).indices
    places = torch.empty_like(order)
    places[order] = torch.arange(order.shape[0], device=order.device)
    return order, places


class LoopedExperts(ExpertBank):
    """One expert after the other, each with all of its tokens."""

    def __init__(
        self, gate_and_up: Sequence[Matrix], down: Sequence[Matrix], product: GatedProduct
    ) -> None:
        self._gate_and_up, self._down, self._product = gate_and_up, down, product

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """As `ExpertBank`."""
        order, places = sorted_pairs(ids)
        given, results = hidden[order // ids.shape[1]], []
        counts = torch.bincount(ids.flatten(), minlength=len(self._down)).tolist()
        for expert, rows in enumerate(given.split(counts)):
            if rows.shape[0] > 0:
                results.append(self._one(expert, rows, is_step))
        return places, torch.cat(results)

    def _one(self, expert: int, rows: Tensor, is_step: bool) -> Tensor:
        gate_and_up, down = self._gate_and_up[expert], self._down[expert]
        both = gate_and_up.step(rows) if is_step else gate_and_up(rows)
        inner = self._product(*both.chunk(2, dim=1))
        return down.step(inner) if is_step else down(inner)
