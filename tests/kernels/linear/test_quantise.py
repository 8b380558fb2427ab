"""Compiled quantising against plain torch: the same integers and scales, bit by bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.native import NativeInt4Format, NativeInt8Format
from kernels.linear.reference import QuantisedTensors, WeightFormat
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
SHAPES = [(0, 8), (1, 1), (1, 33), (13, 7), (96, 64), (300, 640), (70, 1000), (5, 4099)]


def formats() -> list[tuple[WeightFormat, WeightFormat]]:
    """Compiled formats, each with its reference."""
    return [
        (NativeInt4Format(library()), Int4Format(packed=False)),
        (NativeInt8Format(library()), Int8Format(None)),
    ]


def assert_same_bits(found: QuantisedTensors, expected: QuantisedTensors) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def assert_quantised_alike(weight: Tensor) -> None:
    for compiled, plain in formats():
        expected = plain.quantise(weight)
        with poisoned_memory():
            assert_same_bits(compiled.quantise(weight), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1.0, 3e-38, 1e-41, 1e30, 0.0])
def test_integers_and_scales_are_those_of_plain_torch(
    shape: tuple[int, int], dtype: torch.dtype, size: float
) -> None:
    weight = size * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert_quantised_alike(weight.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_levels_halfway_between_two_are_rounded_alike(dtype: torch.dtype) -> None:
    """Multiples of half a scale, one sign alone, all numbers the same, and zeros of both signs."""
    halves = torch.arange(64).repeat(4, 1) / 2
    rows = [halves - 16, halves, -halves - 5, torch.full((2, 64), -3.0)]
    zeros = torch.zeros(3, 64)
    zeros[1], zeros[2, ::2] = -0.0, -0.0
    assert_quantised_alike(torch.cat([*rows, zeros]).to(dtype))


def test_numbers_of_every_size_are_rounded_alike() -> None:
    """All of bfloat16 that are numbers, at random places."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    every = every[every.isfinite()]
    for seed in range(3):
        order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))
        # Of groups whose range is no number itself nothing is promised.
        weight = every[order][: len(every) // 96 * 96].view(-1, 96)
        assert_quantised_alike(weight.clamp(-1e38, 1e38))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_spoils_its_own_row_alone(number: float) -> None:
    weight = torch.randn(4, 64)
    spoilt = weight.clone()
    spoilt[1, 3] = number
    for compiled, _ in formats():
        expected, found = compiled.quantise(weight), compiled.quantise(spoilt)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one[[0, 2, 3]], other[[0, 2, 3]])


def test_columns_that_lie_apart_go_through_torch() -> None:
    weight = torch.randn(64, 96).T
    for compiled, plain in formats():
        assert_same_bits(compiled.quantise(weight), plain.quantise(weight))
