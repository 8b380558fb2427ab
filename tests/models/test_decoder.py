"""What every family gets from the decoder: slots of the memory for blocks of several mixers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.memory import (
    FullAttentionSpec,
    LayerMemory,
    LayerSpec,
    RecurrentSpec,
    StateTensor,
)
from core.layers.rope import Rotations
from core.models.decoder import Decoder, Stack
from tests.layers.sources import random_weights
from tests.models.memory import CPU, ConcatenatingMemory

ROWS = FullAttentionSpec(num_kv_heads=1, head_dim=2, dtype=torch.float32)
STATE = RecurrentSpec((StateTensor((3,), torch.float32),))


@dataclass
class Noting:
    """A block that notes which slots it was given."""

    specs: tuple[LayerSpec, ...]
    given: list[int]

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        self.given.append(layer)
        return hidden


def test_a_block_is_given_its_first_slot_however_many_it_has() -> None:
    given: list[int] = []
    kinds: list[tuple[LayerSpec, ...]] = [(STATE, ROWS), (), (ROWS,), (STATE, ROWS)]
    stack = Stack(
        vocab_size=5,
        hidden_size=4,
        max_positions=8,
        tied=True,
        blocks=[Noting(specs, given) for specs in kinds],
        norm=lambda hidden: hidden,
        ropes={},
    )
    weights = random_weights()
    model = Decoder(stack, weights, weights, CPU)
    assert model.layer_specs == (STATE, ROWS, ROWS, STATE, ROWS)
    memory = ConcatenatingMemory(model.layer_specs)
    model.forward(torch.zeros(1, 4), torch.zeros(3, 1), memory)
    assert given == [0, 2, 2, 3] and memory.num_checks == len(kinds)
