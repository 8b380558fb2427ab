"""Routing and sums are their equations; of equal experts the first are taken."""

from __future__ import annotations

import pytest
import torch

from kernels.common.shapes import Routing
from kernels.experts.reference import LoopedExperts, gated, route, weighted_sum
from kernels.linear.reference import PlainMatrix
from kernels.pointwise.reference import swiglu

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@TYPES
@pytest.mark.parametrize("normalise", [True, False])
def test_the_most_probable_experts_are_taken(dtype: torch.dtype, normalise: bool) -> None:
    logits = torch.randn(50, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    ids, weights = route(logits, Routing(3, normalise))
    assert (ids.dtype, weights.dtype) == (torch.int32, torch.float32)
    for row, chosen, given in zip(logits.float(), ids.tolist(), weights, strict=True):
        assert chosen == sorted(row.argsort(descending=True, stable=True)[:3].tolist())
        expected = row.softmax(0)[chosen]
        torch.testing.assert_close(given, expected / expected.sum() if normalise else expected)


def test_of_equal_experts_the_first_are_taken() -> None:
    logits = torch.tensor([[0.0, 1.0, 1.0, 1.0, 2.0], [3.0, 3.0, 3.0, 3.0, 3.0]])
    ids, weights = route(logits, Routing(3))
    assert ids.tolist() == [[1, 2, 4], [0, 1, 2]]
    torch.testing.assert_close(weights[1], torch.full((3,), 1 / 3))


def test_sigmoids_are_corrected_for_the_choice_alone() -> None:
    draw = torch.Generator().manual_seed(1)
    logits, correction = torch.randn(50, 9, generator=draw), torch.randn(9, generator=draw)
    ids, weights = route(logits, Routing(3, sigmoid=True, scale=2.5), correction)
    for row, chosen, given in zip(logits.sigmoid(), ids.tolist(), weights, strict=True):
        assert chosen == sorted((row + correction).argsort(descending=True)[:3].tolist())
        torch.testing.assert_close(given, 2.5 * row[chosen] / row[chosen].sum())
    _, plain = route(logits, Routing(3, normalise=False, sigmoid=True), correction)
    torch.testing.assert_close(plain, logits.sigmoid().gather(1, ids.long()))
    _, none = route(torch.full((1, 4), -200.0), Routing(2, sigmoid=True))
    assert none.tolist() == [[0.0, 0.0]]


def test_experts_of_the_groups_with_the_largest_sums_of_two_are_chosen_from() -> None:
    routing = Routing(4, sigmoid=True, groups=4, open_groups=2)
    logits = torch.randn(50, 12, generator=torch.Generator().manual_seed(2))
    logits[0] = 0  # of equal groups the first
    ids, _ = route(logits, routing)
    assert ids[0].tolist() == [0, 1, 2, 3]
    outside = 0
    for row, chosen in zip(logits.sigmoid()[1:], ids[1:].tolist(), strict=True):
        sums = [sum(sorted(group.tolist())[-2:]) for group in row.split(3)]
        best = sorted(range(4), key=lambda group: -sums[group])[:2]
        inside = [expert for expert in range(12) if expert // 3 in best]
        assert chosen == sorted(sorted(inside, key=lambda expert: -float(row[expert]))[:4])
        outside += chosen != sorted(row.argsort(descending=True)[:4].tolist())
    assert outside > 5


@pytest.mark.parametrize("is_step", [True, False])
def test_every_pair_goes_through_its_expert(is_step: bool) -> None:
    up, down = torch.randn(4, 10, 6), torch.randn(4, 6, 5)
    bank = LoopedExperts(list(map(PlainMatrix, up)), list(map(PlainMatrix, down)), gated(swiglu))
    hidden, ids = torch.randn(3, 6), torch.tensor([[0, 3], [1, 3], [0, 1]])
    places, rows = bank(hidden, ids.to(torch.int32), is_step)
    assert places is not None
    for pair, expert in enumerate(ids.flatten().tolist()):
        gate, inner = (hidden[pair // 2] @ up[expert].T).chunk(2)
        expected = (torch.nn.functional.silu(gate) * inner) @ down[expert].T
        torch.testing.assert_close(rows[places[pair]], expected)


@TYPES
def test_the_sum_is_rounded_once(dtype: torch.dtype) -> None:
    rows, shared = torch.randn(6, 40).to(dtype), torch.randn(3, 40).to(dtype)
    weights, gate = torch.rand(3, 2), torch.randn(3, 1).to(dtype)
    places = torch.tensor([5, 0, 1, 4, 2, 3])
    pairs = rows[places].double().unflatten(0, (3, 2))
    expected = (pairs * weights.double()[:, :, None]).sum(1)
    ulp = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-22
    found = weighted_sum(places, rows, weights)
    torch.testing.assert_close(found.double(), expected, rtol=ulp, atol=1e-6)
    expected = expected + shared.double() * gate.double().sigmoid()
    found = weighted_sum(places, rows, weights, shared, gate)
    torch.testing.assert_close(found.double(), expected, rtol=ulp, atol=1e-6)
