"""Parts common to all families: slots of the memory, halves of a block."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from core.layers.block import HybridBlock, Norms, ParallelMixers
from core.layers.memory import Forward, FullAttentionSpec, LayerSpec, RecurrentSpec, StateTensor
from core.layers.norm import RMSNorm
from core.models.decoder import Decoder
from tests.layers.sources import random_weights
from tests.models.memory import CPU, ConcatenatingMemory

ROWS = FullAttentionSpec(num_kv_heads=1, head_dim=2, dtype=torch.float32)
STATE = RecurrentSpec((StateTensor((3,), torch.float32),))
CONFIG: Any = SimpleNamespace(vocab_size=5, hidden_size=4, max_position_embeddings=8)
WIDTH = 4


@dataclass
class Noting:
    """A mixer that multiplies, and notes which slots it was given."""

    specs: tuple[LayerSpec, ...]
    given: list[int]
    factor: float = 1.0

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        self.given.append(slot)
        return self.factor * hidden


def norm(seed: int) -> RMSNorm:
    return RMSNorm(random_weights(seed=seed), WIDTH, 1e-6)


def test_a_block_is_given_its_first_slot_however_many_it_has() -> None:
    given: list[int] = []
    kinds: list[tuple[LayerSpec, ...]] = [(STATE, ROWS), (), (ROWS,), (STATE, ROWS)]
    weights = random_weights()
    blocks = [
        HybridBlock(weights, WIDTH, Norms(norm(1), norm(2)), Noting(specs, given), None)
        for specs in kinds
    ]
    model = Decoder(
        weights,
        weights,
        CPU,
        CONFIG,
        tied=True,
        blocks=blocks,
        norm=lambda hidden: hidden,
        ropes={},
    )
    assert model.layer_specs == (STATE, ROWS, ROWS, STATE, ROWS)
    memory = ConcatenatingMemory(model.layer_specs)
    model.forward(torch.zeros(1, WIDTH), torch.zeros(3, 1), memory)
    assert given == [0, 2, 2, 3] and memory.num_checks == len(kinds)


@pytest.mark.parametrize("halves", ["mixer", "feed forward", "both"])
@pytest.mark.parametrize("after", [True, False])
def test_a_block_adds_each_half_to_what_it_reads(halves: str, after: bool) -> None:
    hidden, forward = torch.randn(3, WIDTH), Forward({}, ConcatenatingMemory(()))
    norms = Norms(norm(1), norm(2), *((norm(3), norm(4)) if after else ()))
    mixer = Noting((), [], 2.0) if halves != "feed forward" else None
    fed = (lambda rows, is_step: 3.0 * rows) if halves != "mixer" else None
    block = HybridBlock(random_weights(), WIDTH, norms, mixer, fed, (0.5, 0.25))
    expected = hidden
    if mixer:
        mixed = 2.0 * norm(1)(hidden)
        expected = expected + 0.5 * (norm(3)(mixed) if after else mixed)
    if fed:
        given = 3.0 * norm(2)(expected)
        expected = expected + 0.25 * (norm(4)(given) if after else given)
    torch.testing.assert_close(block(hidden, forward, 0), expected)


def test_parallel_mixers_read_through_norms_of_their_own() -> None:
    given: list[int] = []
    first, second = Noting((STATE, ROWS), given, 2.0), Noting((ROWS,), given, 3.0)
    both = ParallelMixers(random_weights(), WIDTH, (norm(1), first), (norm(2), second), 0.5)
    hidden, forward = torch.randn(3, WIDTH), Forward({}, ConcatenatingMemory(()))
    expected = 3.0 * norm(2)(hidden) + 0.5 * 2.0 * norm(1)(hidden)
    torch.testing.assert_close(both(hidden, forward, 4), expected)
    assert given == [4, 6] and both.specs == (STATE, ROWS, ROWS)
