"""Compiled products against exact sums: steps and prompts, on odd shapes and in both types."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.linear.int4 import GROUP, dequantise_groups, unhalve
from kernels.linear.int8 import quantise_inputs
from kernels.linear.native import (
    MOST_STEPS,
    NativeBfloatFormat,
    NativeInt4Format,
    NativeInt8Format,
    Product,
)
from kernels.linear.reference import (
    Matrix,
    PlainMatrix,
    QuantisedTensors,
    StackedMatrix,
    WeightFormat,
)
from kernels.native.levels import machine
from kernels.native.library import MOST_NUMBERS, Library
from tests.kernels.linear.test_cpu import assert_exact, parts
from tests.kernels.native.here import NEEDS_COMPILER, library, makes_bytes
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
SHAPES = [(1, 1), (1, 33), (13, 7), (96, 64), (129, 257), (300, 640), (70, 1000), (20, 3000)]
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
BIAS = pytest.mark.parametrize("with_bias", [True, False])
COUNTS = (1, 2, 8, 9, 23, 32, 33, 130)


def both_ways(matrix: Matrix, inputs: Tensor) -> list[Tensor]:
    """The results of a prompt's rows, and of the same rows as steps, alone and together."""
    with poisoned_memory():
        steps = [matrix.step(rows) for rows in inputs[: 2 * MOST_STEPS].split(MOST_STEPS)]
        single = [matrix.step(inputs[row : row + 1]) for row in range(min(3, len(inputs)))]
        return [matrix(inputs), torch.cat(steps), torch.cat(single)]


@BIAS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("product", ["pairs", "floats", "torch"])
def test_bfloat16_is_exact_but_for_rounding(
    shape: tuple[int, int], with_bias: bool, product: Product
) -> None:
    if product == "torch" and machine() == "arm64":
        pytest.skip("torch's product errs by more than rounding, and is not used")
    weight_format = NativeBfloatFormat(library(), product)
    for count in COUNTS:
        inputs, weight, bias = parts(shape, count, torch.bfloat16)
        given = bias if with_bias else None
        matrix = weight_format.prepack(weight_format.quantise(weight), given)
        for found in both_ways(matrix, inputs):
            assert_exact(found, inputs[: len(found)], weight, given)


def rounded(inputs: Tensor) -> Tensor:
    integers, scales = quantise_inputs(inputs)
    return integers.double() * scales.double()


def held(kept: QuantisedTensors, inputs: int) -> Tensor:
    """The stored weight as float64 [outputs, inputs]."""
    values, scales = kept
    if values.dtype == torch.int8:
        return values.double() * scales.double()
    return dequantise_groups(unhalve(values), scales)[:, :inputs].double()


def largest_of(pairs: Tensor) -> Tensor:
    """The size of the largest weight of each group's 256 inputs, if all 16 codes occur there,
    [outputs, groups]."""
    scale, offset = pairs.float().unbind(2)
    lowest = offset - 8 * scale
    largest = torch.maximum(lowest.abs(), (lowest + 15 * scale).abs())
    blocks = [block.amax(1, keepdim=True).expand_as(block) for block in largest.split(8, dim=1)]
    return torch.cat(blocks, dim=1)


def in_bytes(kept: QuantisedTensors, inputs: int) -> Tensor:
    """The int4 weight at a level of `IN_BYTES`, float64 [outputs, inputs]: 8-bit integers with a
    scale for 256 inputs, rounded from 16 bits."""
    halves, pairs = kept
    scale, offset = pairs.float().unbind(2)
    step = (largest_of(pairs) / 127).clamp_min(1e-30)
    both = (scale, offset - 8 * scale)
    steps, starts = ((each * (256 / step)).round().int().unsqueeze(2) for each in both)
    codes = unhalve(halves).int().unflatten(1, (-1, GROUP))
    integers = (codes * steps + starts + 128) >> 8
    assert integers.abs().max() <= 127
    weight: Tensor = integers.double() * step.double().unsqueeze(2)
    return weight.flatten(1)[:, :inputs]


def assert_integers_exact(
    found: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor | None
) -> None:
    """Against float64 sums of the same integers: only scales and bias are rounded, then all."""
    wide = inputs @ weight.T
    size = inputs.abs() @ weight.abs().T
    if bias is not None:
        wide, size = wide + bias.double(), size + bias.double().abs()
    bound = size * 64 * 2.0**-24 + wide.abs() * torch.finfo(found.dtype).eps
    assert ((found.double() - wide).abs() <= bound).all()


@TYPES
@BIAS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [NativeInt8Format, NativeInt4Format])
def test_integers_are_exact_but_for_rounding(
    kind: type[NativeInt8Format], shape: tuple[int, int], with_bias: bool, dtype: torch.dtype
) -> None:
    weight_format: WeightFormat = kind(library())
    as_bytes = kind is not NativeInt8Format and makes_bytes()
    for count in COUNTS:
        inputs, weight, bias = parts(shape, count, dtype)
        kept, given = weight_format.quantise(weight), bias if with_bias else None
        plain = held(kept, shape[1])
        many = in_bytes(kept, shape[1]) if as_bytes else plain
        for way, found in enumerate(both_ways(weight_format.prepack(kept, given), inputs)):
            rows = inputs[: len(found)]
            assert_integers_exact(found, rounded(rows), plain if way else many, given)


def test_int4_weights_in_bytes_are_the_nearest() -> None:
    """Unit vectors give the weights that many rows are multiplied by: within 0.54 of a 127th of the
    largest of 256, also where scales are negative, zero or of very unlike groups."""
    draw = torch.Generator().manual_seed(2)
    halves = torch.randint(0, 256, (40, 208), dtype=torch.uint8, generator=draw)
    pairs = torch.randn(40, 13, 2, generator=draw).bfloat16()
    pairs[:8, 0] *= 2**20
    pairs[8:16, :, 0] *= 1e-30
    pairs[16:20, :, 0], pairs[20:22], pairs[22:24] = 0, 0, pairs[22:24] * 1e-34
    exact = held((halves, pairs), 416)
    units = torch.eye(416) * 127  # the scale of each row is one
    for rows in (units, units[:3]):
        found = NativeInt4Format(library()).prepack((halves, pairs), None)(rows).T.double() / 127
        bound = largest_of(pairs).double().repeat_interleave(GROUP, dim=1) * 0.54 / 127 + 1e-30
        assert ((found - exact[:, : len(rows)]).abs() <= bound[:, : len(rows)]).all()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3e38])
def test_int4_scales_that_are_no_numbers_spoil_their_output_alone(number: float) -> None:
    _, weight, _ = parts((70, 128), 40, torch.bfloat16)
    inputs = torch.ones(40, 128).bfloat16()
    halves, pairs = NativeInt4Format(library()).quantise(weight)
    expected = NativeInt4Format(library()).prepack((halves, pairs), None)(inputs)
    spoilt = pairs.clone()
    spoilt[5, 2] = number
    found = NativeInt4Format(library()).prepack((halves, spoilt), None)(inputs)
    assert not found[:, 5].isfinite().any()
    assert torch.equal(found[:, :5], expected[:, :5])
    assert torch.equal(found[:, 6:], expected[:, 6:])


@pytest.mark.parametrize("form", [NativeBfloatFormat, NativeInt8Format, NativeInt4Format])
def test_its_first_outputs_are_those_of_the_whole(form: Callable[[Library], WeightFormat]) -> None:
    weight_format, (inputs, weight, bias) = form(library()), parts((300, 640), 5, torch.bfloat16)
    one = weight_format.prepack(weight_format.quantise(weight), bias)
    stacked = StackedMatrix([one, PlainMatrix(weight[:7]), one], [300, 7, 300])
    for count in (1, 65, 299, 300, 307, 350, 607, 4000):
        for matrix in (one, stacked):
            whole, first = matrix.step(inputs), matrix.first(count)
            assert torch.equal(first.step(inputs), whole[:, :count])
            assert torch.equal(first.step(inputs[:1]), matrix.step(inputs[:1])[:, :count])
    # What can't be taken apart stays whole.
    assert torch.equal(stacked.first(302).step(inputs), stacked.step(inputs)[:, :307])


def extreme(outputs: int, inputs: int) -> Tensor:
    """int8 whose products are as large as they can be, and add up."""
    values = torch.full((outputs, inputs), 127, dtype=torch.int8)
    values[1::2] = -127
    return values


@pytest.mark.parametrize("inputs", [64, 1000, 8192])
def test_the_largest_integers_overflow_nowhere(inputs: int) -> None:
    matrix = NativeInt8Format(library()).prepack((extreme(6, inputs), torch.ones(6, 1)), None)
    rows = torch.full((3, inputs), -1.0)
    expected = torch.tensor([[-1.0, 1.0] * 3]) * 127 * inputs
    for found in (matrix(rows), matrix.step(rows)):
        torch.testing.assert_close(found, expected.expand(3, 6), rtol=1e-6, atol=0)


def test_the_largest_int4_values_overflow_nowhere() -> None:
    """Sums of 16 bits hold eight pairs of products, if none is larger than it may be."""
    halves, pairs = torch.full((5, 48), 255, dtype=torch.uint8), torch.ones(5, 3, 2).bfloat16()
    pairs[:, :, 1] = 0
    for sign in (-1.0, 1.0):
        rows = torch.full((3, 96), sign * 127)
        matrix = NativeInt4Format(library()).prepack((halves, pairs), None)
        assert torch.equal(matrix.step(rows), torch.full((3, 5), 96 * 7 * 127 * sign))
        weight = in_bytes((halves, pairs), 96) if makes_bytes() else held((halves, pairs), 96)
        assert_integers_exact(matrix(rows), rows.double(), weight, None)


@pytest.mark.parametrize("count", [1, 40])
def test_sums_that_32_bits_may_not_hold_go_through_floats(count: int) -> None:
    """Each product is 127 squared, and there are 140,000 of them."""
    values = torch.full((8, 140_000), 127, dtype=torch.int8)
    inputs = torch.full((count, 140_000), 127.0)  # whose scale is one
    matrix = NativeInt8Format(library()).prepack((values, torch.full((8, 1), 2.0**-8)), None)
    expected = 140_000 * 127.0**2 / 2**8
    found = matrix(inputs)
    # As floats are added up; in 32 bits the sign would be another.
    torch.testing.assert_close(found, torch.full((count, 8), expected), rtol=1e-3, atol=0)


def test_rows_without_numbers_and_of_another_width_are_for_torch() -> None:
    """The kernels would divide by zero, or read what lies behind."""
    for weight_format in (NativeBfloatFormat(library()), NativeInt8Format(library())):
        matrix = weight_format.prepack(weight_format.quantise(torch.ones(4, 32).bfloat16()), None)
        with pytest.raises(RuntimeError):
            matrix(torch.ones(1, 31).bfloat16())
    empty = NativeBfloatFormat(library()).prepack((torch.ones(4, 0).bfloat16(),), None)
    assert torch.equal(empty(torch.ones(1, 0).bfloat16()), torch.zeros(1, 4).bfloat16())


def test_results_go_where_they_are_wanted() -> None:
    """Into columns of something wider, for few rows and for many."""
    draw = torch.Generator().manual_seed(6)
    weight = torch.randn(24, 64, generator=draw).bfloat16()
    for weight_format in (
        NativeBfloatFormat(library()),
        NativeInt8Format(library()),
        NativeInt4Format(library()),
    ):
        matrix = weight_format.prepack(weight_format.quantise(weight), None)
        for count in (1, 5, 50):
            inputs = torch.randn(count, 64, generator=draw).bfloat16()
            wide = torch.zeros(count, 40).bfloat16()
            matrix.into(wide[:, 8:32], inputs)
            assert torch.equal(wide[:, 8:32], matrix(inputs))
            assert not wide[:, :8].any() and not wide[:, 32:].any()


FORMATS = [
    pytest.param(NativeBfloatFormat, id="bfloat16"),
    pytest.param(NativeInt8Format, id="int8"),
    pytest.param(NativeInt4Format, id="int4"),
]


@pytest.mark.parametrize("kind", FORMATS)
def test_zeros_give_the_bias_and_what_is_no_number_stays_so(kind: type[NativeInt8Format]) -> None:
    weight_format: WeightFormat = kind(library())
    inputs, weight, bias = parts((96, 64), 1, torch.bfloat16)
    matrix = weight_format.prepack(weight_format.quantise(weight), bias)
    assert torch.equal(matrix(0 * inputs), bias[None])
    for number in (float("nan"), float("inf")):
        inputs[0, 5] = number
        assert not bool(matrix(inputs).isfinite().any())


@pytest.mark.parametrize("kind", [NativeInt8Format, NativeInt4Format])
def test_a_row_too_long_for_the_kernel_goes_through_torch(kind: type[NativeInt8Format]) -> None:
    weight_format = kind(library())
    inputs, weight, _ = parts((3, MOST_NUMBERS + 32), 1, torch.float32)
    kept = weight_format.quantise(weight)
    expected = inputs.double() @ held(kept, inputs.shape[1]).T
    found = weight_format.prepack(kept, None)(inputs).double()
    # Up to a million rounded inputs, and sums of as many numbers.
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02 * expected.abs().max().item())
