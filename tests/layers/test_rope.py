"""Which frequency follows which axis."""

from __future__ import annotations

import tracemalloc

import pytest
import torch

from core.layers.rope import InterleavedMRoPE

CPU = torch.device("cpu")


def rope(dim: int = 64, dtype: torch.dtype = torch.float32) -> InterleavedMRoPE:
    return InterleavedMRoPE(1e7, dim, (11, 11, 10), CPU, dtype)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axes_take_turns(axis: int) -> None:
    positions = torch.zeros(3, 1, dtype=torch.long)
    positions[axis] = 5
    _, sine = rope()(positions)
    moved = sine[0].nonzero().flatten().tolist()
    expected = {0: [*range(0, 32, 3)], 1: [*range(1, 32, 3)], 2: [*range(2, 30, 3)]}
    # 3 x 11 = 33 covers height up to frequency 31, 3 x 10 = 30 leaves no width past 29.
    assert moved == expected[axis]


def test_frequencies_past_the_sections_stay_temporal() -> None:
    small = InterleavedMRoPE(1e4, 16, (6, 1, 1), CPU, torch.float32)
    positions = torch.tensor([[0], [5], [5]])
    _, sine = small(positions)
    assert sine[0].nonzero().flatten().tolist() == [1, 2]


def test_sections_may_be_longer_than_there_are_frequencies() -> None:
    far = InterleavedMRoPE(1e4, 16, (0, 2**70, 2**62), CPU, torch.float32)
    _, sine = far(torch.tensor([[0], [5], [5]]))
    assert sine[0].nonzero().flatten().tolist() == [1, 2, 4, 5, 7]


def test_the_widest_head_that_a_config_may_have_takes_little() -> None:
    """Nothing as large as a Python object for each frequency: what was asked for comes later."""
    tracemalloc.start()
    InterleavedMRoPE(1e7, 2**21, (11, 11, 10), CPU, torch.float32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_angles_are_float32_and_rounded_last() -> None:
    positions = torch.tensor([[100_003]]).expand(3, -1)
    exact, rough = rope()(positions), rope(dtype=torch.bfloat16)(positions)
    assert torch.equal(rough[0], exact[0].bfloat16())
    assert torch.equal(rough[1], exact[1].bfloat16())
