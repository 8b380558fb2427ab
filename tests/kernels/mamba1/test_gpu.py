"""Mamba-1's selective scan on a GPU against its equation in float64: steps, runs, views, poison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.common.scans import SpaceInputs
from tests.kernels.gpu import assert_near, guarded_memory, is_poison, strided
from tests.kernels.mamba1.test_reference import Case, equation, make_case

gpu = pytest.importorskip("kernels.mamba1.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu


def given(case: Case, device: torch.device) -> list[Tensor]:
    """What the kernel gets: views, in their types."""
    inputs, b, c, steps, rate, skip, _ = case
    rough = [strided(each.to(device)) for each in (inputs, b, c)]
    return [*rough, strided(steps.to(device)), rate.to(device), skip.to(device)]


def assert_follows(found: tuple[Tensor, Tensor], case: Case) -> None:
    """Outputs and state add up N products and decayed ones before them, each off by half an ULP."""
    ulps = case[1].shape[1] + len(case[0]) + 64
    for ours, theirs in zip(found, equation(case), strict=True):
        assert ours.dtype == torch.float32
        assert_near(ours, theirs, ulps, theirs.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("count", "channels", "state_dim"), [(1, 64, 16), (1, 33, 5), (7, 48, 16), (65, 70, 17)]
)
def test_the_state_is_moved_on_in_place(
    count: int, channels: int, state_dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    case = make_case(count, channels, state_dim, dtype=dtype)
    around = torch.full((state_dim + 2, channels), float("nan"), device=device)
    state = around[1:-1].copy_(case[-1])
    with guarded_memory():
        found = gpu.mamba1_run_(SpaceInputs(*given(case, device)), state)
    assert_follows((found, state), case)
    assert is_poison(around[0]).all() and is_poison(around[-1]).all()


def test_strong_decay_stays_finite(device: torch.device) -> None:
    case = make_case(30, 16, 4, strongest=200.0)
    state = case[-1].clone().to(device)
    found = gpu.mamba1_run_(SpaceInputs(*given(case, device)), state)
    assert_follows((found, state), case)


def test_a_run_has_the_bits_of_its_tokens(device: torch.device) -> None:
    *inputs, start = (each.to(device) for each in make_case(9, 48, 16))
    rows, state, stepped = SpaceInputs(*inputs), start.clone(), start.clone()
    whole = gpu.mamba1_run_(rows, state)
    found = [gpu.mamba1_run_(token, stepped) for token in rows.split(1)]
    assert torch.equal(torch.cat(found), whole) and torch.equal(stepped, state)
