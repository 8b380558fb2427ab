"""Checkpoints copied beside what a GPU computes; how copies are waited for is tests.cache's."""

from __future__ import annotations

import pytest
import torch

from core.cache.state import Checkpoint, HostCopies, RecurrentState, SideStream

pytestmark = pytest.mark.gpu


def test_a_copy_is_of_what_was_there_when_it_was_begun(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("a stream of its own needs a GPU")
    copies = HostCopies(SideStream(device))
    state, taken = torch.zeros(2**22, device=device), []
    for number in range(8):
        state = state * 1 + 1  # the next run's, in memory of its own
        source = RecurrentState({0: (state,)})
        taken.append(copies.take(Checkpoint(source, state[:4].clone())))
        assert taken[-1].last_hidden.is_pinned(), number
    copies.wait()
    for number, checkpoint in enumerate(taken):
        assert bool((checkpoint.state.layers[0][0] == number + 1).all())
        assert checkpoint.last_hidden.tolist() == [number + 1] * 4
