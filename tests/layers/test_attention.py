"""Attention over a picture, which some families let see both ways."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.layers.attention import Attention
from core.layers.memory import Forward
from core.layers.rope import InterleavedMRoPE
from kernels.common.shapes import AttentionShape
from tests.layers.sources import random_weights
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
SHAPE = AttentionShape(heads=4, kv_heads=2, head_dim=8)
ROPE = InterleavedMRoPE(1e4, 4, (1, 1, 0), torch.device("cpu"), torch.float32)


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


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
