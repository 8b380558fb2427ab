"""Every format's values against packers written from its definition, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, UnsupportedQuantisationError, WaymarkError
from core.weights.published.formats import (
    AwqFormat,
    Float8Format,
    Format,
    GptqFormat,
    PackQuantizedFormat,
)
from core.weights.published.quantised import Quantised
from tests.weights.published.packers import (
    Known,
    awq,
    compressed,
    dequantised,
    fp8,
    gptq,
    known,
)

FP8 = Float8Format((128, 128))
GPTQ = GptqFormat(32, symmetric=False, reordered=False, zeros_less_one=True)
AWQ = AwqFormat(32)
PACKED = PackQuantizedFormat(32, symmetric=False, reordered=False)
# Outputs, inputs, group size: whole words, groups cut short, one group, one word.
SIZES = [(16, 64, 32), (8, 8, 8), (24, 104, 32), (40, 72, -1), (8, 136, 128)]
# What formats that pad may hold besides.
ODD_SIZES = [*SIZES, (1, 1, 1), (3, 5, 2), (13, 33, 32), (7, 129, 128), (17, 31, -1)]


def assemble(kind: Format, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Any:
    """Assemble parts, and assert that the format accepts them."""
    for name, part in kind.parts("layer", shape).items():
        assert part.optional or tuple(parts[name].shape) == part.shape
    return kind.assemble("layer", shape, parts)


def check(found: Any, layer: Known) -> None:
    """The very integers, and floats equal to the bit."""
    assert isinstance(found, Quantised)
    assert found.shape == tuple(layer.numbers.shape)
    assert found.values.dtype == torch.int8 and found.values.is_contiguous()
    assert torch.equal(found.values.long(), layer.numbers - 8)
    zeros = torch.zeros_like(layer.zeros) if found.zeros is None else found.zeros.long()
    assert torch.equal(zeros, layer.zeros - 8)
    assert found.scales.dtype == torch.float32
    assert torch.equal(found.scales, layer.scales.float())
    assert torch.equal(dequantised(found), layer.weights)
    assert torch.equal(dequantised(found, torch.bfloat16), layer.weights.bfloat16())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_gptq(size: tuple[int, int, int], version: int) -> None:
    layer = known(*size, lowest_zero=1)
    kind = GptqFormat(size[2], symmetric=False, reordered=False, zeros_less_one=version == 1)
    check(assemble(kind, gptq(layer, version=version), size[:2]), layer)


def test_gptq_with_inputs_out_of_order() -> None:
    layer = known(16, 96, 32, shuffled=True, lowest_zero=1)
    kind = GptqFormat(32, symmetric=False, reordered=True, zeros_less_one=True)
    found = assemble(kind, gptq(layer), (16, 96))
    check(found, layer)
    assert torch.equal(found.groups, layer.groups)


def test_gptq_groups_in_order_need_no_index() -> None:
    layer = known(16, 96, 32, symmetric=True)
    kind = GptqFormat(32, symmetric=True, reordered=False, zeros_less_one=True)
    parts = gptq(layer)
    with_index = assemble(kind, parts, (16, 96))
    del parts["g_idx"]
    without = assemble(kind, parts, (16, 96))
    for found in (with_index, without):
        check(found, layer)
        assert found.groups is None and found.zeros is None


@pytest.mark.parametrize("size", [*SIZES, (8, 5, 2)])
def test_awq(size: tuple[int, int, int]) -> None:
    layer = known(*size)
    check(assemble(AwqFormat(size[2]), awq(layer), size[:2]), layer)


def test_awq_places() -> None:
    """One output alone differs from 0: each of the eight in turn."""
    for output in range(8):
        layer = known(8, 2, 2)
        layer.numbers.zero_()
        layer.numbers[output] = 15
        check(assemble(AwqFormat(2), awq(layer), (8, 2)), layer)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("size", ODD_SIZES)
def test_compressed(size: tuple[int, int, int], symmetric: bool, dtype: torch.dtype) -> None:
    layer = known(*size, symmetric=symmetric, dtype=dtype)
    kind = PackQuantizedFormat(size[2], symmetric=symmetric, reordered=False)
    found = assemble(kind, compressed(layer, symmetric=symmetric), size[:2])
    if dtype == torch.float32:  # the product may need more than 24 bits: it is rounded once
        assert torch.equal(found.values.long(), layer.numbers - 8)
        assert torch.equal(dequantised(found), layer.weights)
    else:
        check(found, layer)


def test_compressed_with_inputs_out_of_order() -> None:
    layer = known(9, 70, 32, shuffled=True)
    kind = PackQuantizedFormat(32, symmetric=False, reordered=True)
    check(assemble(kind, compressed(layer, reordered=True), (9, 70)), layer)


def test_every_float8_number() -> None:
    """All codes but the two that are no number, times 1."""
    codes = torch.arange(256, dtype=torch.uint8)
    codes = codes[(codes & 127) != 127].reshape(2, 127)
    values = codes.view(torch.float8_e4m3fn)
    parts = {"weight": values, "weight_scale_inv": torch.ones(1, 1)}
    assert torch.equal(dequantised(assemble(FP8, parts, (2, 127))), values.float())
    assert dequantised(assemble(FP8, parts, (2, 127))).max() == 448


def test_large_layers_are_written_in_blocks() -> None:
    layer = known(40, 70_000, 128)
    check(assemble(AwqFormat(128), awq(layer), (40, 70_000)), layer)


def raises(
    kind: Format, parts: Mapping[str, Tensor], shape: tuple[int, int], words: str
) -> WaymarkError:
    with pytest.raises(BrokenWeightsError, match=words) as caught:
        assemble(kind, parts, shape)
    assert "layer" in caught.value.message
    return caught.value


@pytest.mark.parametrize("wrong", [-1, 3, 2**31 - 1])
def test_a_group_out_of_range(wrong: int) -> None:
    layer = known(8, 96, 32, lowest_zero=1)
    layer.groups[50] = wrong
    kind = GptqFormat(32, symmetric=False, reordered=True, zeros_less_one=True)
    raises(kind, gptq(layer), (8, 96), "not there")
    packed = PackQuantizedFormat(32, symmetric=False, reordered=True)
    raises(packed, compressed(layer, reordered=True), (8, 96), "not there")


def test_an_order_that_the_config_denies() -> None:
    layer = known(8, 96, 32, shuffled=True, lowest_zero=1)
    raises(GPTQ, gptq(layer), (8, 96), "in order")


def test_zero_points_that_the_config_denies() -> None:
    kind = GptqFormat(32, symmetric=True, reordered=False, zeros_less_one=True)
    layer = known(8, 32, 32, symmetric=True)
    check(assemble(kind, gptq(layer), (8, 32)), layer)
    raises(kind, gptq(layer, version=2), (8, 32), "symmetric")  # version 2 called version 1


def test_a_zero_point_that_overflowed() -> None:
    layer = known(8, 32, 32, lowest_zero=1)
    parts = gptq(layer)
    parts["qzeros"] |= 15 << 8
    raises(GPTQ, parts, (8, 32), "overflowed")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_scales_are_numbers(wrong: float) -> None:
    layer = known(8, 32, 32, lowest_zero=1)
    layer.scales[3, 0] = wrong
    raises(GPTQ, gptq(layer), (8, 32), "finite")
    raises(AWQ, awq(layer), (8, 32), "finite")
    raises(PACKED, compressed(layer), (8, 32), "finite")
    parts = fp8(8, 32, dtype=torch.float32)
    parts["weight_scale_inv"][0, 0] = wrong
    raises(FP8, parts, (8, 32), "finite")


def test_a_shape_written_down_wrongly() -> None:
    parts = compressed(known(8, 32, 32))
    parts["weight_shape"] = torch.tensor([32, 8])
    raises(PACKED, parts, (8, 32), "weight_shape")


@pytest.mark.parametrize("kind", [GPTQ, AWQ])
def test_outputs_that_fill_no_word(kind: Format) -> None:
    with pytest.raises(UnsupportedQuantisationError, match="multiples of 8"):
        kind.parts("layer", (12, 64))


def test_inputs_that_fill_no_word() -> None:
    with pytest.raises(UnsupportedQuantisationError, match="multiples of 8"):
        GPTQ.parts("layer", (16, 60))
