"""The causal convolution against torch's own, whole and in pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.causal_conv.reference import causal_conv_step, convolve
from tests.kernels.poison import poisoned_memory

CHANNELS = 5


def make_case(count: int, taps: int = 4) -> tuple[Tensor, Tensor]:
    """Inputs [count, channels] and weight [taps, channels]."""
    generator = torch.Generator().manual_seed(count)
    inputs = torch.randn(count, CHANNELS, generator=generator)
    return inputs, torch.randn(taps, CHANNELS, generator=generator)


def causal_conv(
    inputs: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The outputs of a run that follows `tail`, and the tail after it."""
    rows = torch.cat((tail, inputs))
    return convolve(rows, weight, bias), rows[rows.shape[0] - weight.shape[0] + 1 :]


def expected(inputs: Tensor, weight: Tensor) -> Tensor:
    padded = F.pad(inputs.T[None], (weight.shape[0] - 1, 0))
    return F.silu(F.conv1d(padded, weight.T[:, None], groups=CHANNELS))[0].T


@pytest.mark.parametrize("taps", [2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 65])
def test_a_first_run_starts_from_zeros(count: int, taps: int) -> None:
    inputs, weight = make_case(count, taps)
    with poisoned_memory():
        outputs, tail = causal_conv(inputs, torch.zeros(taps - 1, CHANNELS), weight)
    torch.testing.assert_close(outputs, expected(inputs, weight))
    whole = torch.cat((torch.zeros(taps - 1, CHANNELS), inputs))
    assert torch.equal(tail, whole[count:])


@pytest.mark.parametrize("count", [1, 5, 65])
def test_a_bias_is_added_before_silu(count: int) -> None:
    inputs, weight = make_case(count)
    bias = torch.arange(CHANNELS) - 2.0
    padded = F.pad(inputs.T[None], (3, 0))
    convolved = F.conv1d(padded, weight.T[:, None], bias, groups=CHANNELS)
    outputs, _ = causal_conv(inputs, torch.zeros(3, CHANNELS), weight, bias)
    torch.testing.assert_close(outputs, F.silu(convolved)[0].T)
    tail = torch.zeros(3, CHANNELS)
    steps = [causal_conv_step(row, tail, weight, bias) for row in torch.split(inputs, 1)]
    torch.testing.assert_close(torch.cat(steps), outputs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("cuts", [[1], [2], [3], [1, 2], [1, 2, 3], [4, 5, 9], range(1, 12)])
def test_the_carried_tail_continues_the_run(cuts: list[int]) -> None:
    inputs, weight = make_case(12)
    tail, outputs = torch.zeros(3, CHANNELS), []
    for piece in torch.tensor_split(inputs, list(cuts)):
        rows, tail = causal_conv(piece, tail, weight)
        outputs.append(rows)
    whole, end = causal_conv(inputs, torch.zeros(3, CHANNELS), weight)
    torch.testing.assert_close(torch.cat(outputs), whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(tail, end)


def test_bfloat16_keeps_its_tail_and_computes_in_float32() -> None:
    inputs, weight = make_case(9)
    tail = torch.zeros(3, CHANNELS, dtype=torch.bfloat16)
    outputs, after = causal_conv(inputs.bfloat16(), tail, weight)
    assert (outputs.dtype, after.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(outputs, expected(inputs.bfloat16().float(), weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("taps", [2, 4, 7])
def test_a_step_moves_its_tail_on_in_place(taps: int, dtype: torch.dtype) -> None:
    inputs, weight = make_case(9, taps)
    inputs = inputs.to(dtype)
    whole, end = causal_conv(inputs, torch.zeros(taps - 1, CHANNELS, dtype=dtype), weight)
    tail = torch.zeros(taps - 1, CHANNELS, dtype=dtype)
    with poisoned_memory():
        outputs = [causal_conv_step(row, tail, weight) for row in torch.split(inputs, 1)]
    torch.testing.assert_close(torch.cat(outputs), whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(tail, end)
