"""Recurrent states as values: where they lie, and that copies are one's own."""

from __future__ import annotations

import torch

from core.cache.state import RecurrentState
from core.layers.memory import RecurrentSpec, StateTensor

SPECS = (RecurrentSpec((StateTensor((3, 5), torch.bfloat16), StateTensor((2, 4), torch.float32))),)


def test_the_state_before_the_first_token_takes_no_memory() -> None:
    zeros = RecurrentState.zeros(SPECS, torch.device("cpu"))
    assert zeros.matches(SPECS) and not any(tensor.any() for tensor in zeros.layers[0])
    assert [tensor.untyped_storage().nbytes() for tensor in zeros.layers[0]] == [2, 4]
    assert zeros.num_bytes == 2 * 15 + 4 * 8


def test_copies_of_it_and_room_beside_it_have_memory_of_their_own() -> None:
    zeros = RecurrentState.zeros(SPECS, torch.device("cpu"))
    for other in (zeros.copy(), zeros.room()):
        assert other.matches(SPECS)
        for tensor in other.layers[0]:
            assert tensor.is_contiguous()
            assert tensor.untyped_storage().nbytes() == tensor.nbytes
            tensor.fill_(1)
    assert not any(tensor.any() for tensor in zeros.layers[0])
