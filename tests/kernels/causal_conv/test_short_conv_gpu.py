"""The gated short convolution on a GPU against the plain one: runs, steps, tails, strides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.causal_conv import reference
from tests.kernels.gpu import assert_near, guarded_memory, poison_around, strided

gpu = pytest.importorskip("kernels.causal_conv.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu


def make_case(
    count: int, channels: int, taps: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """B, C and x side by side, tail, weight and bias."""
    generator = torch.Generator().manual_seed(count)
    projected = torch.randn(count, 3 * channels, generator=generator).to(dtype)
    tail = torch.randn(taps - 1, channels, generator=generator).to(dtype)
    weight = torch.randn(taps, channels, generator=generator)
    bias = torch.randn(channels, generator=generator)
    return projected.to(device), tail.to(device), weight.to(device), bias.to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("count", "channels", "taps"),
    [(1, 5, 3), (2, 200, 3), (16, 7, 2), (17, 33, 7), (65, 130, 3), (300, 6, 4)],
)
def test_a_run_follows_its_tail_and_moves_it_on(
    count: int, channels: int, taps: int, dtype: torch.dtype, biased: bool, device: torch.device
) -> None:
    projected, tail, weight, bias = make_case(count, channels, taps, dtype, device)
    given, expected_tail = (bias if biased else None), tail.clone()
    expected = reference.short_conv(projected, expected_tail, weight, given)
    slots = strided(tail, 2)
    around = poison_around(slots)
    with guarded_memory():
        found = gpu.short_conv(strided(projected), slots, weight, given)
    assert found.dtype == dtype
    # Up to 7 products are added one by one, in whichever order.
    assert_near(found, expected, 24, expected.abs().max())
    assert torch.equal(slots, expected_tail)
    assert poison_around(slots) == around


def test_steps_continue_a_run(device: torch.device) -> None:
    projected, tail, weight, bias = make_case(21, 40, 3, torch.float32, device)
    one, other = tail.clone(), tail.clone()
    whole = gpu.short_conv(projected, one, weight, bias)
    pieces = [projected[:17], *projected[17:].split(1)]
    found = torch.cat([gpu.short_conv(piece, other, weight, bias) for piece in pieces])
    assert torch.equal(found, whole)
    assert torch.equal(one, other)
