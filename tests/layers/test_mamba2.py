"""Mamba-2 as a layer: its memory, long runs in blocks, its forms, its spec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from core.layers.mamba2 import Mamba2, Mamba2Form
from core.layers.memory import Forward, RecurrentSpec
from kernels.common.shapes import Mamba2Shape
from kernels.ops import PLAIN_OPS, Ops
from tests.layers.sources import bias_of, random_weights, weight_of
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
SHAPE = Mamba2Shape(heads=6, head_dim=5, groups=2, state_dim=7, taps=4)
FORM = Mamba2Form(
    1e-5,
    norm_groups=2,
    projection_bias=True,
    output_bias=True,
    limits=(0.01, 0.9),
    multipliers=(0.5, 1.5, 0.7, 1.3, 0.8),
)


def make_layer(
    dtype: torch.dtype = torch.float32, ops: Ops = PLAIN_OPS, form: Mamba2Form = FORM
) -> Mamba2:
    return Mamba2(random_weights(dtype, ops=ops), WIDTH, SHAPE, form)


def run(layer: Mamba2, *pieces: Tensor) -> tuple[Tensor, ConcatenatingMemory]:
    memory = ConcatenatingMemory(layer.specs)
    return torch.cat([layer(piece, Forward({}, memory), 0) for piece in pieces]), memory


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def by_hand(layer: Mamba2, form: Mamba2Form, hidden: Tensor) -> Tensor:
    """The layer's equation in float64, token by token; its taps as they are without multipliers."""
    projected = hidden.double() @ weight_of(layer.projection).double().T
    projected += bias_of(layer.projection).double()
    of_gate, *of_columns, of_steps = form.multipliers
    gate, mixed, steps = projected.split([30, 30 + 28, 6], dim=1)
    each = torch.tensor(of_columns).repeat_interleave(torch.tensor([30, 14, 14]))
    taps = layer.conv.double() / each
    mixed = F.pad(mixed * each, (0, 0, 3, 0))
    columns = sum(mixed[tap : tap + len(hidden)] * taps[tap] for tap in range(4))
    assert isinstance(columns, Tensor)
    if layer.conv_bias is not None:
        columns = columns + layer.conv_bias.double()
    inputs, b, c = F.silu(columns).split([30, 14, 14], dim=1)
    times = F.softplus(steps * of_steps + layer.bias.double()).clamp(*form.limits)
    state, results = torch.zeros(6, 5, 7).double(), []
    for token in range(len(hidden)):
        given, time = inputs[token].view(6, 5), times[token][:, None]
        maps = [each[token].view(2, 7).repeat_interleave(3, 0) for each in (b, c)]
        kept = (time * layer.rate.double()[:, None]).exp()[..., None]
        state = kept * state + (time * given)[..., None] * maps[0][:, None]
        read = (state * maps[1][:, None]).sum(-1) + layer.skip.double()[:, None] * given
        results.append(read.flatten())
    read, opened = torch.stack(results), F.silu(gate * of_gate)
    if layer.scale is None:
        read = read * opened
    else:
        read = read * opened if form.gate_first else read
        groups = read.view(-1, form.norm_groups, 30 // form.norm_groups)
        lengths = (groups.square().mean(-1, keepdim=True) + form.epsilon).sqrt()
        read = (groups / lengths).flatten(1) * layer.scale.double()
        read = read if form.gate_first else read * opened
    return read @ weight_of(layer.output).double().T + bias_of(layer.output).double()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"gate_first": False},
        {"norm_groups": 0},
        {"norm_groups": 1, "conv_bias": False},
        {"limits": (0.0, float("inf"))},
    ],
    ids=str,
)
def test_a_layer_is_its_equation(change: dict[str, Any]) -> None:
    form = replace(FORM, **change)
    layer = make_layer(form=form)
    expected = by_hand(layer, form, rows(70)).float()
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
    assert stored == [((3, 58), torch.bfloat16), ((6, 5, 7), torch.float32)]


def test_only_a_token_that_is_generated_is_a_step() -> None:
    taken: list[str] = []

    def spy(name: str) -> Any:
        rule = getattr(PLAIN_OPS, name)

        def counted(*given: Any) -> object:
            taken.append(name)
            return rule(*given)

        return counted

    names = ("mamba2_step", "mamba2_run_")
    layer = make_layer(ops=replace(PLAIN_OPS, **{name: spy(name) for name in names}))
    # A prompt's last row alone is part of a prefill.
    run(layer, rows(1), rows(2))
    assert taken == ["mamba2_run_"] * 2
    memory = ConcatenatingMemory(layer.specs)
    memory.is_step = True
    layer(rows(1), Forward({}, memory), 0)
    assert taken[2:] == ["mamba2_step"]
