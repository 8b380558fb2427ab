"""Mamba-1 as a layer: its memory, long runs in blocks, runs that share a call, its spec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from core.layers.mamba1 import Mamba1
from core.layers.memory import Forward, RecurrentSpec
from core.weights.plan import Weights
from kernels.common.shapes import Mamba1Shape
from kernels.dispatch import backend
from kernels.linear.native import NativeBfloatMatrix
from kernels.linear.reference import Integers, PlainMatrix
from kernels.ops import PLAIN_OPS, Ops
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.layers.sources import Quantising, bias_of, drawn, random_weights, weight_of
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
SHAPE = Mamba1Shape(channels=20, state_dim=5, taps=4)


def make_layer(
    dtype: torch.dtype = torch.float32,
    ops: Ops = PLAIN_OPS,
    *,
    bias: bool = False,
    conv_bias: bool = True,
) -> Mamba1:
    weights = random_weights(dtype, ops=ops)
    return Mamba1(weights, WIDTH, SHAPE, 3, 1e-5, bias=bias, conv_bias=conv_bias)


def run(layer: Mamba1, *pieces: Tensor) -> tuple[Tensor, ConcatenatingMemory]:
    memory = ConcatenatingMemory(layer.specs)
    return torch.cat([layer(piece, Forward({}, memory), 0) for piece in pieces]), memory


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def normed(given: Tensor, scale: Tensor) -> Tensor:
    return given / (given.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale.double()


def by_hand(layer: Mamba1, hidden: Tensor) -> Tensor:
    """The layer's equation in float64, token by token."""
    matrix = layer.projection.matrix
    assert isinstance(matrix, PlainMatrix)
    biased = matrix.bias is not None
    projected = hidden.double() @ weight_of(layer.projection).double().T
    projected += bias_of(layer.projection).double() if biased else 0
    mixed, gate = projected.split(20, dim=1)
    mixed, taps = F.pad(mixed, (0, 0, 3, 0)), layer.conv.double()
    columns = sum(mixed[tap : tap + len(hidden)] * taps[tap] for tap in range(4))
    assert isinstance(columns, Tensor)
    if layer.conv_bias is not None:
        columns = columns + layer.conv_bias.double()
    inputs = F.silu(columns)
    steps, b, c = (inputs @ weight_of(layer.selection).double().T).split([3, 5, 5], dim=1)
    steps = normed(steps, layer.step_norm.scale) @ weight_of(layer.steps).double().T
    times = F.softplus(steps + layer.step_bias.double())
    b, c = normed(b, layer.b_norm.scale), normed(c, layer.c_norm.scale)
    state, results = torch.zeros(5, 20).double(), []
    for token in range(len(hidden)):
        kept = (times[token] * layer.rate.double()).exp()
        state = kept * state + torch.outer(b[token], times[token] * inputs[token])
        results.append(c[token] @ state + layer.skip.double() * inputs[token])
    found = torch.stack(results) * F.silu(gate) @ weight_of(layer.output).double().T
    return found + bias_of(layer.output).double() if biased else found


@pytest.mark.parametrize("form", [{}, {"bias": True}, {"conv_bias": False}], ids=str)
def test_a_layer_is_its_equation(form: dict[str, Any]) -> None:
    layer = make_layer(**form)
    expected = by_hand(layer, rows(70)).float()
    found, _ = run(layer, rows(70))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    stepped, memory = [], ConcatenatingMemory(layer.specs)
    memory.is_step = True
    for row in rows(70).split(1):
        stepped.append(layer(row, Forward({}, memory), 0))
    torch.testing.assert_close(torch.cat(stepped), expected, rtol=1e-4, atol=1e-4)


def test_the_spec_is_the_state_it_stores() -> None:
    layer = make_layer(torch.bfloat16)
    assert isinstance(layer.specs[0], RecurrentSpec)
    _, memory = run(layer, rows(5).bfloat16())
    stored = [(tuple(tensor.shape), tensor.dtype) for tensor in memory.state(0)]
    assert stored == [(spec.shape, spec.dtype) for spec in layer.specs[0].tensors]
    assert stored == [((3, 20), torch.bfloat16), ((5, 20), torch.float32)]


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1, 1), (2, 70, 1, 3), (65, 5)])
def test_runs_that_share_a_call_leave_their_own_tails_and_states(lengths: tuple[int, ...]) -> None:
    """Some are shorter than the tail."""
    layer, whole = make_layer(), rows(sum(lengths))
    memory = ConcatenatingMemory(layer.specs)
    alone, after = [], []
    for piece in whole.split(lengths):
        alone.append(layer(piece, Forward({}, memory), 0))
        after.append([each.clone() for each in memory.state(0)])
    states = [[torch.zeros_like(each) for each in after[0]]]
    states += [[each.clone() for each in state] for state in after[:-1]]
    given = ((length, tuple(state)) for length, state in zip(lengths, states, strict=True))
    found = layer._runs(whole, given)
    torch.testing.assert_close(found, torch.cat(alone), rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(states, after, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_only_a_token_that_is_generated_is_a_step() -> None:
    taken: list[str] = []

    def spy(name: str) -> Any:
        scan = getattr(PLAIN_OPS, name)

        def counted(*given: Any) -> object:
            taken.append(name)
            return scan(*given)

        return counted

    names = ("mamba1_step", "mamba1_run_")
    layer = make_layer(ops=replace(PLAIN_OPS, **{name: spy(name) for name in names}))
    # A prompt's last row alone is part of a prefill.
    run(layer, rows(1), rows(2))
    assert taken == ["mamba1_run_"] * 2
    memory = ConcatenatingMemory(layer.specs)
    memory.is_step = True
    layer(rows(1), Forward({}, memory), 0)
    assert taken[2:] == ["mamba1_step"]


@NEEDS_COMPILER
@pytest.mark.parametrize("integers", ["int8", "int4"])
def test_what_is_not_quantised_is_batch_invariant_where_towers_are_not(integers: Integers) -> None:
    """Torch's product, where it is chosen, lets a row depend on those beside it."""
    kernels = backend("cpu", torch.bfloat16, integers=integers, library=library(), product="torch")

    weights = Weights(
        Quantising(drawn, kernels.formats), torch.bfloat16, kernels.formats, kernels.ops
    )
    layer = Mamba1(weights, WIDTH, SHAPE, 3, 1e-5, bias=False, conv_bias=True)
    assert weights.batch_invariant
    for linear in (layer.selection, layer.steps):
        assert isinstance(linear.matrix, NativeBfloatMatrix) and linear.matrix.compiled
