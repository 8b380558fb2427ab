"""The scans of Mamba-1 and Mamba-2 on a GPU against their equations: steps, views, poison."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import SpaceInputs
from tests.kernels.gpu import assert_near, guarded_memory, is_poison, strided
from tests.kernels.test_native_scans import ONE, TWO, Case, Scan

pytest.importorskip("triton", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu
SMALL = pytest.mark.parametrize(("scan", "sizes"), [(ONE, (48, 16)), (TWO, (2, 8, 1, 16))])


def run(scan: Scan, inputs: SpaceInputs, state: Tensor) -> Tensor:
    found: Tensor = getattr(import_module(f"kernels.{scan.name}.gpu"), f"{scan.name}_run_")(
        inputs, state
    )
    return found


def given(case: Case, device: torch.device) -> SpaceInputs:
    """Inputs of the kernel: views, in their types."""
    *rough, rate, skip = case[:-1]
    views = [strided(each.to(device), 3) for each in rough]
    return SpaceInputs._make([*views, rate.to(device), skip.to(device)])


def assert_follows(scan: Scan, found: tuple[Tensor, Tensor], case: Case) -> None:
    """Outputs and state add up N products and decayed ones before them, each off by half an ULP."""
    ulps = case[1].shape[-1] + len(case[0]) + 64
    for ours, theirs in zip(found, scan.equation(case), strict=True):
        assert ours.dtype == torch.float32
        assert_near(ours, theirs, ulps, theirs.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("scan", "count", "sizes"),
    [
        *((ONE, count, each) for count, *each in ((1, 64, 16), (1, 33, 5), (7, 48, 16))),
        (ONE, 65, (70, 17)),
        *((TWO, count, each) for count, *each in ((1, 4, 64, 1, 128), (1, 3, 5, 3, 17))),
        *((TWO, count, each) for count, *each in ((7, 4, 9, 2, 16), (65, 2, 16, 1, 32))),
    ],
)
def test_the_state_is_updated_in_place(
    scan: Scan, count: int, sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    case = scan.make(count, *sizes, dtype=dtype)
    start = case[-1]
    around = torch.full((len(start) + 2, *start.shape[1:]), float("nan"), device=device)
    state = around[1:-1].copy_(start)
    with guarded_memory():
        found = run(scan, given(case, device), state)
    assert_follows(scan, (found, state), case)
    assert is_poison(around[0]).all() and is_poison(around[-1]).all()


@SMALL
def test_strong_decay_stays_finite(
    scan: Scan, sizes: tuple[int, ...], device: torch.device
) -> None:
    case = scan.make(30, *sizes, strongest=200.0)
    state = case[-1].clone().to(device)
    assert_follows(scan, (run(scan, given(case, device), state), state), case)


@SMALL
def test_a_run_has_the_bits_of_its_tokens(
    scan: Scan, sizes: tuple[int, ...], device: torch.device
) -> None:
    *inputs, start = (each.to(device) for each in scan.make(9, *sizes))
    rows, state, stepped = SpaceInputs(*inputs), start.clone(), start.clone()
    whole = run(scan, rows, state)
    found = [run(scan, token, stepped) for token in rows.split(1)]
    assert torch.equal(torch.cat(found), whole) and torch.equal(stepped, state)
