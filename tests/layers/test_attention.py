"""Gated attention as a layer: its keys grow by the run, and its gate closes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from core.layers.attention import Attention
from core.layers.memory import Forward, FullAttentionSpec
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import InterleavedMRoPE
from kernels.common.shapes import AttentionShape
from tests.layers.sources import random_weights, weight_of
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
SHAPE = AttentionShape(heads=4, kv_heads=2, head_dim=8)
ROPE = InterleavedMRoPE(1e4, 4, (1, 1, 0), torch.device("cpu"), torch.float32)


def make_layer() -> Attention:
    return Attention(
        random_weights(), WIDTH, SHAPE, norm=ZeroCentredRMSNorm, epsilon=1e-6, gated=True
    )


def run(layer: Attention, whole: Tensor, cuts: list[int]) -> Tensor:
    memory = ConcatenatingMemory(layer.specs)
    places = torch.arange(whole.shape[0]).expand(3, -1)
    outputs = []
    for piece, place in zip(
        torch.tensor_split(whole, cuts), torch.tensor_split(places, cuts, dim=1), strict=True
    ):
        outputs.append(layer(piece, Forward({"full_attention": ROPE(place)}, memory), 0))
    return torch.cat(outputs)


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def test_the_spec_counts_what_a_token_costs() -> None:
    layer = make_layer()
    assert layer.specs == (FullAttentionSpec(num_kv_heads=2, head_dim=8, dtype=torch.float32),)
    assert layer.specs[0].bytes_per_token == 2 * 2 * 8 * 4


@pytest.mark.parametrize("cuts", [[1], [5], [39], [1, 2, 3], list(range(1, 40))])
def test_a_run_in_pieces_is_the_run_in_one(cuts: list[int]) -> None:
    layer, whole = make_layer(), rows(40)
    torch.testing.assert_close(run(layer, whole, cuts), run(layer, whole, []), rtol=1e-4, atol=1e-5)


def test_a_token_does_not_see_what_follows() -> None:
    layer, whole = make_layer(), rows(10)
    before = run(layer, whole, [])
    whole[7:] = 3.0
    torch.testing.assert_close(run(layer, whole, [])[:7], before[:7])


def test_a_window_forgets_what_is_older_and_keeps_all_keys() -> None:
    layer = Attention(random_weights(), WIDTH, replace(SHAPE, window=3))
    whole = rows(10)
    before = run(layer, whole, [4])
    whole[:5] = 3.0
    after = run(layer, whole, [4])
    torch.testing.assert_close(after[7:], before[7:])
    assert not torch.allclose(after[6], before[6])
    assert layer.specs == (FullAttentionSpec(num_kv_heads=2, head_dim=8, dtype=torch.float32),)


@pytest.mark.parametrize("both_ways", [True, False])
def test_only_a_picture_that_attends_both_ways_sees_what_follows_in_it(both_ways: bool) -> None:
    layer, whole = Attention(random_weights(), WIDTH, SHAPE, both_ways=both_ways), rows(6)
    place = torch.arange(6).expand(3, -1)

    def first(hidden: Tensor) -> Tensor:
        memory = ConcatenatingMemory(layer.specs)
        forward = Forward({"full_attention": ROPE(place)}, memory, image=True)
        return layer(hidden, forward, 0)[0]

    before = first(whole)
    whole[5] = 3.0
    assert torch.equal(first(whole), before) is not both_ways


def test_a_closed_gate_gives_nothing() -> None:
    layer = make_layer()
    queries = weight_of(layer.projections)[: 2 * SHAPE.heads * SHAPE.head_dim]
    doubled = queries.view(SHAPE.heads, 2, SHAPE.head_dim, WIDTH)
    doubled[:, 1] = 0
    doubled[:, 1, :, 0] = -1e4  # the second half of every head's rows is its gate
    whole = rows(6).abs()
    assert run(layer, whole, []).abs().max() < 1e-6
