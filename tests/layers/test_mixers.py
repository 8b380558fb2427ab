"""Recurrent mixers as layers: their equations, states, long runs in blocks and joined runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from core.layers import runs
from core.layers.gated_deltanet import GatedDeltaNet
from core.layers.mamba import Mamba1, Mamba2, Mamba2Form
from core.layers.memory import Forward, RecurrentSpec
from core.layers.short_conv import ShortConv
from core.weights.plan import Weights
from kernels.common.shapes import DeltaShape, Mamba1Shape, Mamba2Shape, ShortConvShape
from kernels.dispatch import backend
from kernels.linear.native import NativeBfloatMatrix
from kernels.linear.reference import Integers
from kernels.ops import PLAIN_OPS, Ops
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory
from tests.layers.sources import Quantising, drawn, random_weights
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
DELTA = DeltaShape(key_heads=2, key_dim=6, value_heads=4, value_dim=5, taps=4)
MAMBA1 = Mamba1Shape(channels=20, state_dim=5, taps=4)
MAMBA2 = Mamba2Shape(heads=6, head_dim=5, groups=2, state_dim=7, taps=4)
FORM = Mamba2Form(
    1e-5,
    norm_groups=2,
    projection_bias=True,
    output_bias=True,
    limits=(0.01, 0.9),
    multipliers=(0.5, 1.5, 0.7, 1.3, 0.8),
)


def mamba1(weights: Weights, *, bias: bool = False, conv_bias: bool = True) -> Mamba1:
    return Mamba1(weights, WIDTH, MAMBA1, 3, 1e-5, bias=bias, conv_bias=conv_bias)


def mamba2(weights: Weights, **change: Any) -> Mamba2:
    return Mamba2(weights, WIDTH, MAMBA2, replace(FORM, **change))


MIXERS: dict[str, Callable[[Weights], Any]] = {
    "gated_delta": lambda weights: GatedDeltaNet(weights, WIDTH, DELTA, 1e-6),
    "mamba1": mamba1,
    "mamba2": mamba2,
    "short_conv": lambda weights: ShortConv(weights, ShortConvShape(WIDTH, 3), bias=True),
}
BFLOAT, FLOAT = torch.bfloat16, torch.float32
# What is stored of a layer in bfloat16.
STATES = {
    "gated_delta": [((3, 44), BFLOAT), ((4, 6, 5), FLOAT)],
    "mamba1": [((3, 20), BFLOAT), ((5, 20), FLOAT)],
    "mamba2": [((3, 58), BFLOAT), ((6, 5, 7), FLOAT)],
    "short_conv": [((2, WIDTH), BFLOAT)],
}
# The operation of a generated token, that of a prefill, and its calls for runs of 1, 2 and 65.
STEPS = {
    "gated_delta": ("recurrent_gated_delta_step", "chunked_gated_delta_"),
    "mamba1": ("mamba1_step", "mamba1_run_"),
    "mamba2": ("mamba2_step", "mamba2_run_"),
}


@pytest.fixture(params=MIXERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(name: str, dtype: torch.dtype = FLOAT, ops: Ops = PLAIN_OPS) -> Any:
    return MIXERS[name](random_weights(dtype, ops=ops))


def run(layer: Any, *pieces: Tensor, is_step: bool = False) -> tuple[Tensor, ConcatenatingMemory]:
    memory = ConcatenatingMemory(layer.specs)
    memory.is_step = is_step
    return torch.cat([layer(piece, Forward({}, memory), 0) for piece in pieces]), memory


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- states and runs


def test_the_spec_is_the_state_it_stores(name: str) -> None:
    layer = make(name, BFLOAT)
    (spec,) = layer.specs
    assert isinstance(spec, RecurrentSpec)
    _, memory = run(layer, rows(5).bfloat16())
    stored = [(tuple(tensor.shape), tensor.dtype) for tensor in memory.state(0)]
    assert stored == [(each.shape, each.dtype) for each in spec.tensors] == STATES[name]
    assert spec.num_bytes == sum(tensor.nbytes for tensor in memory.state(0))


@pytest.mark.parametrize("cut", [1, 2, 3, 64, 69])
def test_a_run_in_two_is_the_run_in_one(name: str, cut: int) -> None:
    layer, whole = make(name), rows(70)
    expected, after = run(layer, whole)
    found, memory = run(layer, whole[:cut], whole[cut:])
    close((found, *memory.state(0)), (expected, *after.state(0)))


@pytest.mark.parametrize("count", [1, 2, 64, 65, 130])
def test_nothing_depends_on_memory_that_was_not_written(name: str, count: int) -> None:
    layer = make(name)
    expected, after = run(layer, rows(count))
    with poisoned_memory():
        found, memory = run(layer, rows(count))
    assert torch.equal(found, expected)
    assert all(torch.equal(*pair) for pair in zip(memory.state(0), after.state(0), strict=True))


@pytest.mark.parametrize(
    ("block", "part"), [(64, 64), (300, 128), (128, 64), (1, None), (299, None)]
)
def test_long_runs_go_in_blocks_and_those_in_parts(
    name: str, monkeypatch: pytest.MonkeyPatch, block: int, part: int | None
) -> None:
    whole = rows(300)
    expected, after = run(make(name, ops=replace(PLAIN_OPS, rows_per_part=None)), whole)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", block)
    found, memory = run(make(name, ops=replace(PLAIN_OPS, rows_per_part=part)), whole)
    close((found, *memory.state(0)), (expected, *after.state(0)))


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1, 1), (2, 70, 1, 3), (65, 5)])
def test_runs_that_share_a_call_leave_their_own_tails_and_states(
    name: str, lengths: tuple[int, ...]
) -> None:
    """Some are shorter than the tail."""
    layer, whole = make(name), rows(sum(lengths))
    memory = ConcatenatingMemory(layer.specs)
    alone, after = [], []
    for piece in whole.split(lengths):
        alone.append(layer(piece, Forward({}, memory), 0))
        after.append([each.clone() for each in memory.state(0)])
    states = [[torch.zeros_like(each) for each in after[0]]]
    states += [[each.clone() for each in state] for state in after[:-1]]
    given = ((length, tuple(state)) for length, state in zip(lengths, states, strict=True))
    close(layer._runs(whole, given), torch.cat(alone))
    close(states, after)


@pytest.mark.parametrize("name", STEPS)
def test_only_a_token_that_is_generated_is_a_step(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def spy(operation: str) -> Any:
        rule = getattr(PLAIN_OPS, operation)

        def counted(*given: Any) -> object:
            taken.append(operation)
            return rule(*given)

        return counted

    step, prefill = STEPS[name]
    layer = make(name, ops=replace(PLAIN_OPS, **{each: spy(each) for each in STEPS[name]}))
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", 64)
    # A prompt's last row alone, and one at the end of a long run, are part of a prefill.
    run(layer, rows(1), rows(2), rows(65))
    assert taken == [prefill] * 4
    run(layer, rows(1), is_step=True)
    assert taken[4:] == [step]


@pytest.mark.parametrize(("count", "is_step"), [(1, True), (1, False), (2, False), (70, False)])
def test_the_state_is_moved_on_in_place(name: str, count: int, is_step: bool) -> None:
    layer = make(name)
    _, memory = run(layer, rows(9))
    memory.is_step = is_step
    before = memory.state(0)
    copies = [tensor.clone() for tensor in before]
    layer(rows(count), Forward({}, memory), 0)
    for tensor, copy, after in zip(before, copies, memory.state(0), strict=True):
        assert tensor is after and not torch.equal(tensor, copy)


@NEEDS_COMPILER
@pytest.mark.parametrize("integers", ["int8", "int4"])
def test_what_is_not_quantised_is_batch_invariant_where_towers_are_not(integers: Integers) -> None:
    """Torch's product, where it is chosen, lets a row depend on those beside it."""
    kernels = backend("cpu", BFLOAT, integers=integers, library=library(), product="torch")
    weights = Weights(Quantising(drawn, kernels.formats), BFLOAT, kernels.formats, kernels.ops)
    layer = mamba1(weights)
    assert weights.batch_invariant
    for linear in (layer.selection, layer.steps):
        assert isinstance(linear.matrix, NativeBfloatMatrix) and linear.matrix.compiled
