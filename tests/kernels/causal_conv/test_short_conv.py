"""The gated short convolution, plain and compiled, against torch's own, whole and in pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.causal_conv.reference import short_conv
from kernels.native_ops import native_ops
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

CHANNELS = 5


def make_case(count: int, taps: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """B, C and x side by side [count, 3 * channels], weight and bias."""
    generator = torch.Generator().manual_seed(count)
    projected = torch.randn(count, 3 * CHANNELS, generator=generator)
    weight = torch.randn(taps, CHANNELS, generator=generator)
    return projected, weight, torch.randn(CHANNELS, generator=generator)


def expected(projected: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    before, after, inputs = projected.chunk(3, 1)
    padded = F.pad((before * inputs).T[None], (weight.shape[0] - 1, 0))
    return after * F.conv1d(padded, weight.T[:, None], bias, groups=CHANNELS)[0].T


@pytest.mark.parametrize("taps", [2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 65])
@pytest.mark.parametrize("biased", [False, True])
def test_a_first_run_starts_from_zeros(count: int, taps: int, biased: bool) -> None:
    projected, weight, bias = make_case(count, taps)
    tail = torch.zeros(taps - 1, CHANNELS)
    with poisoned_memory():
        found = short_conv(projected, tail, weight, bias if biased else None)
    torch.testing.assert_close(found, expected(projected, weight, bias if biased else None))
    before, _, inputs = projected.chunk(3, 1)
    whole = torch.cat((torch.zeros(taps - 1, CHANNELS), before * inputs))
    assert torch.equal(tail, whole[count:])


@pytest.mark.parametrize("cuts", [[1], [2], [1, 2, 3], [4, 5, 9], range(1, 12)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_carried_tail_continues_the_run(cuts: list[int], dtype: torch.dtype) -> None:
    projected, weight, bias = make_case(12)
    projected = projected.to(dtype)
    one, other = (torch.zeros(2, CHANNELS, dtype=dtype) for _ in range(2))
    whole = short_conv(projected, one, weight, bias)
    pieces = torch.tensor_split(projected, list(cuts))
    found = torch.cat([short_conv(piece, other, weight, bias) for piece in pieces])
    assert found.dtype == dtype
    torch.testing.assert_close(found, whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(one, other)


def test_bfloat16_is_rounded_where_a_tail_is_kept_and_at_the_end() -> None:
    projected, weight, bias = make_case(9)
    rough = projected.bfloat16()
    found = short_conv(rough, torch.zeros(2, CHANNELS, dtype=torch.bfloat16), weight, bias)
    before, after, inputs = rough.chunk(3, 1)
    rounded = torch.cat((torch.ones(9, CHANNELS), after.float(), (before * inputs).float()), 1)
    assert torch.equal(found, expected(rounded, weight, bias).bfloat16())


def run(pieces: list[Tensor], weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    ops, channels = native_ops(library()), weight.shape[1]
    tail = torch.zeros(weight.shape[0] - 1, channels, dtype=pieces[0].dtype)
    return torch.cat([ops.short_conv(each, tail, weight, bias) for each in pieces]), tail


@NEEDS_COMPILER
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "taps"), [(64, 3), (37, 3), (37, 4), (37, 7), (5, 2)])
def test_no_cut_changes_compiled_bits(channels: int, taps: int, dtype: torch.dtype) -> None:
    """Steps, short runs and long ones: a token's numbers are its own and those before it."""
    generator = torch.Generator().manual_seed(channels)
    wide = torch.randn(130, 3 * channels + 7, generator=generator).to(dtype)
    projected = wide[:, : 3 * channels]
    weight, bias = torch.randn(taps + 1, channels, generator=generator).split([taps, 1])
    whole, end = run([projected], weight, bias[0])
    for size in (1, 2, 7, 64):
        found, tail = run(list(projected.split(size)), weight, bias[0])
        assert torch.equal(found, whole) and torch.equal(tail, end)
