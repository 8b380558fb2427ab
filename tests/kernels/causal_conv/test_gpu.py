"""The causal convolutions on a GPU against the plain ones: runs, steps, tails, strides, poison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.causal_conv import reference
from tests.kernels.causal_conv.test_reference import causal_conv
from tests.kernels.gpu import assert_near, guarded_memory, poison_around, strided

gpu = pytest.importorskip("kernels.causal_conv.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
# Up to 7 products are added one by one, and a GPU's sigmoid gives away a few ulps.
ULPS = 24


def make_case(
    count: int, channels: int, taps: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, tail and weight."""
    generator = torch.Generator().manual_seed(count)
    inputs = torch.randn(count, channels, generator=generator).to(dtype)
    tail = torch.randn(taps - 1, channels, generator=generator).to(dtype)
    weight = torch.randn(taps, channels, generator=generator)
    return inputs.to(device), tail.to(device), weight.to(device)


def magnitude(inputs: Tensor, tail: Tensor, weight: Tensor) -> Tensor:
    """The sum of the magnitudes of what a column adds up; silu's slope stays below 1.1."""
    padded = torch.cat((tail, inputs)).float().abs()
    added = torch.zeros_like(inputs, dtype=torch.float32)
    for tap in range(len(weight)):
        added += padded[tap : tap + len(inputs)] * weight[tap].abs()
    return 1.1 * added


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "channels", "taps"),
    [(1, 5, 4), (2, 200, 4), (3, 129, 4), (16, 7, 2), (17, 33, 7), (65, 130, 4), (513, 6, 4)],
)
def test_a_run_follows_its_tail(
    count: int, channels: int, taps: int, dtype: torch.dtype, device: torch.device
) -> None:
    inputs, tail, weight = make_case(count, channels, taps, dtype, device)
    expected, _ = causal_conv(inputs, tail, weight)
    rows = strided(torch.cat((tail, inputs)))
    before = rows.clone()
    with guarded_memory():
        found = gpu.convolve(rows, weight)
    assert found.dtype == torch.float32
    assert_near(found, expected, ULPS, magnitude(inputs, tail, weight))
    assert torch.equal(rows, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "channels"), [(1, 300), (2, 5), (5, 64), (16, 9)])
def test_a_step_moves_its_tail_on_in_place(
    count: int, channels: int, dtype: torch.dtype, device: torch.device
) -> None:
    inputs, tail, weight = make_case(count, channels, 4, dtype, device)
    expected, end = causal_conv(inputs, tail, weight)
    slots = strided(tail, 2)
    around = poison_around(slots)
    with guarded_memory():
        found = gpu.causal_conv_step(strided(inputs), slots, weight)
    assert_near(found, expected, ULPS, magnitude(inputs, tail, weight))
    assert torch.equal(slots, end)
    assert poison_around(slots) == around


@pytest.mark.parametrize("count", [1, 20])
def test_a_bias_is_added_before_silu(count: int, device: torch.device) -> None:
    inputs, tail, weight = make_case(count, 130, 4, torch.float32, device)
    bias = torch.linspace(-2, 2, 130, device=device)
    expected, _ = causal_conv(inputs, tail, weight, bias)
    with guarded_memory():
        found = gpu.convolve(strided(torch.cat((tail, inputs))), weight, bias)
    assert_near(found, expected, ULPS, magnitude(inputs, tail, weight) + 1.1 * bias.abs())


def test_steps_continue_a_run(device: torch.device) -> None:
    inputs, tail, weight = make_case(21, 40, 4, torch.float32, device)
    rows = torch.cat((tail, inputs))
    whole, middle = gpu.convolve(rows, weight), rows[17:20].clone()
    first = gpu.convolve(rows[:20], weight)
    steps = [gpu.causal_conv_step(inputs[at : at + 1], middle, weight) for at in range(17, 21)]
    assert torch.equal(torch.cat((first, *steps)), whole)
    assert torch.equal(middle, rows[-3:])


def test_a_step_of_more_programs_than_one_is_refused(device: torch.device) -> None:
    inputs, tail, weight = make_case(17, 4, 4, torch.float32, device)
    with pytest.raises(ValueError, match="16"):
        gpu.causal_conv_step(inputs, tail, weight)


def make_gated(
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
def test_a_gated_run_follows_its_tail_and_moves_it_on(
    count: int, channels: int, taps: int, dtype: torch.dtype, biased: bool, device: torch.device
) -> None:
    projected, tail, weight, bias = make_gated(count, channels, taps, dtype, device)
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


def test_gated_steps_continue_a_run(device: torch.device) -> None:
    projected, tail, weight, bias = make_gated(21, 40, 3, torch.float32, device)
    one, other = tail.clone(), tail.clone()
    whole = gpu.short_conv(projected, one, weight, bias)
    pieces = [projected[:17], *projected[17:].split(1)]
    found = torch.cat([gpu.short_conv(piece, other, weight, bias) for piece in pieces])
    assert torch.equal(found, whole)
    assert torch.equal(one, other)
