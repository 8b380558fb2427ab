"""Experts on a GPU against plain torch in float32: routing, products in every format, sums."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import Routing
from kernels.experts.reference import LoopedExperts, gated, route, weighted_sum
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import Matrix, PlainFormat, WeightFormat
from tests.kernels.gpu import assert_near, guarded_memory, strided
from tests.sweeps import first_quick

gpu = pytest.importorskip("kernels.experts.gpu", reason="Triton is published for Linux alone")
formats = pytest.importorskip("kernels.linear.gpu_formats")
pytestmark = pytest.mark.gpu

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
# How matrices are held, and by plain torch.
KINDS: dict[str, tuple[WeightFormat, WeightFormat]] = {
    "floats": (PlainFormat(), PlainFormat()),
    "int8": (formats.GpuInt8Format(), Int8Format(None)),
    "int4": (formats.GpuInt4Format(), Int4Format(packed=False)),
}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


@TYPES
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("count", "k"), [(1, 1), (5, 5), (9, 2), (256, 8)])
def test_routing(
    count: int, k: int, normalise: bool, dtype: torch.dtype, device: torch.device
) -> None:
    logits = drawn(6, count).to(dtype)
    logits[0] = 0  # of equal experts the first
    expected = route(logits, Routing(k, normalise))
    with guarded_memory():
        ids, weights = gpu.route(strided(logits.to(device)), Routing(k, normalise))
    assert torch.equal(ids.cpu(), expected[0]) and ids.dtype == torch.int32
    assert_near(weights, expected[1], count + 64)


@TYPES
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("normalise", [True, False])
def test_routing_by_sigmoids(
    normalise: bool, groups: int, dtype: torch.dtype, device: torch.device
) -> None:
    logits, correction = drawn(6, 20).to(dtype), drawn(20)
    routing = Routing(3, normalise, sigmoid=True, groups=groups, open_groups=1, scale=2.5)
    expected = route(logits, routing, correction)
    with guarded_memory():
        ids, weights = gpu.route(strided(logits.to(device)), routing, correction.to(device))
    assert torch.equal(ids.cpu(), expected[0])
    assert_near(weights, expected[1], 64, 2.5)


def test_routing_of_what_is_no_number_still_names_experts(device: torch.device) -> None:
    for number in (float("nan"), -float("inf")):
        ids, _ = gpu.route(torch.full((2, 7), number, device=device), Routing(3))
        assert ids.tolist() == [[0, 1, 2]] * 2


@TYPES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("count", "k", "width", "inner", "biased"),
    first_quick([(3, 3, 40, 36, True), (5, 2, 96, 32, False)]),
)
def test_products(
    count: int,
    k: int,
    width: int,
    inner: int,
    biased: bool,
    kind: str,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    ours, plain = KINDS[kind]
    up = [drawn(2 * inner, width, seed=each).to(dtype) for each in range(count)]
    down = [drawn(width, inner, seed=each).to(dtype) for each in range(count)]

    def packed(held: WeightFormat, weights: Sequence[Tensor], where: torch.device) -> list[Matrix]:
        biases = [
            drawn(len(each), seed=expert).to(dtype).to(where, each.dtype) if biased else None
            for expert, each in enumerate(weights)
        ]
        return [
            held.prepack(tuple(part.to(where) for part in plain.quantise(each)), bias)
            for each, bias in zip(weights, biases, strict=True)
        ]

    cpu = torch.device("cpu")
    exact = [[each.float() for each in weights] for weights in (up, down)]
    both, last = (packed(plain, each, cpu) for each in exact)
    reference = LoopedExperts(both, last, gated(torch.add))
    bank = gpu.experts(packed(ours, up, device), packed(ours, down, device), gated(torch.add))
    assert isinstance(bank, gpu.GpuExperts)
    hidden = drawn(21, width).to(dtype)
    ids, _ = route(drawn(21, count), Routing(k))
    at, rows = reference(hidden.float(), ids)
    assert at is not None
    expected, magnitude = rows[at], float(rows.abs().max())
    with guarded_memory():
        places, found = bank(strided(hidden.to(device)), ids.to(device))
        where, alone = bank(hidden[20:21].to(device), ids[20:21].to(device))
    found = found[places]
    # What comes of the first product is rounded to the model's type.
    rounded = 2**15 if dtype == torch.bfloat16 else 0
    assert_near(found, expected, 8 * (width + inner) + rounded, magnitude)
    assert where is None
    here = slice(20 * k, 21 * k)
    if kind == "floats":
        assert torch.equal(alone, found[here])  # whatever is beside it
    else:
        assert_near(alone, expected[here], 8 * (width + inner) + rounded, magnitude)


@TYPES
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_sums(is_shared: bool, is_sorted: bool, dtype: torch.dtype, device: torch.device) -> None:
    rows, weights = drawn(12, 600).to(dtype), drawn(4, 3).softmax(1)
    places = torch.tensor([3, 0, 7, 11, 1, 2, 10, 9, 4, 5, 6, 8]) if is_sorted else None
    shared, gate = drawn(4, 600).to(dtype), drawn(4, 3).to(dtype)[:, 1:2]
    beside = (shared, gate) if is_shared else (None, None)
    wide = [None if each is None else each.float() for each in beside]
    expected = weighted_sum(places, rows.float(), weights, *wide)
    given = [None if each is None else each.to(device) for each in (places, *beside)]
    with guarded_memory():
        found = gpu.weighted_sum(given[0], rows.to(device), weights.to(device), *given[1:])
    assert found.dtype == dtype
    assert_near(found, expected, 32, 2 * rows.float().abs().max())


def test_other_matrices_are_looped_over(device: torch.device) -> None:
    matrices = [
        Int8Format(None).prepack(Int8Format(None).quantise(torch.ones(8, 4)), None)
        for _ in range(2)
    ]
    assert isinstance(gpu.experts(matrices, matrices, gated(torch.add)), LoopedExperts)
