"""The gated delta net as a layer: its memory, long runs in blocks, its spec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from core.layers import runs
from core.layers.gated_deltanet import GatedDeltaNet
from core.layers.memory import Forward, RecurrentSpec
from kernels.common.shapes import DeltaShape
from kernels.ops import PLAIN_OPS, Ops
from tests.kernels.poison import poisoned_memory
from tests.layers.sources import random_weights
from tests.models.memory import ConcatenatingMemory

WIDTH = 12
SHAPE = DeltaShape(key_heads=2, key_dim=6, value_heads=4, value_dim=5, taps=4)


def make_layer(dtype: torch.dtype = torch.float32, ops: Ops = PLAIN_OPS) -> GatedDeltaNet:
    return GatedDeltaNet(random_weights(dtype, ops=ops), WIDTH, SHAPE, 1e-6)


def run(layer: GatedDeltaNet, *pieces: Tensor) -> tuple[Tensor, ConcatenatingMemory]:
    memory = ConcatenatingMemory(layer.specs)
    return torch.cat([layer(piece, Forward({}, memory), 0) for piece in pieces]), memory


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def test_the_spec_is_the_state_it_stores() -> None:
    layer = make_layer(torch.bfloat16)
    assert isinstance(layer.specs[0], RecurrentSpec)
    _, memory = run(layer, rows(5).bfloat16())
    stored = [(tuple(tensor.shape), tensor.dtype) for tensor in memory.state(0)]
    assert stored == [(spec.shape, spec.dtype) for spec in layer.specs[0].tensors]
    assert stored == [((3, 44), torch.bfloat16), ((4, 6, 5), torch.float32)]


@pytest.mark.parametrize("cut", [1, 2, 3, 64, 69])
def test_a_run_in_two_is_the_run_in_one(cut: int) -> None:
    layer, whole = make_layer(), rows(70)
    expected, after = run(layer, whole)
    found, memory = run(layer, whole[:cut], whole[cut:])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(memory.state(0), after.state(0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 64, 65, 130])
def test_nothing_depends_on_memory_that_was_not_written(count: int) -> None:
    layer = make_layer()
    expected, after = run(layer, rows(count))
    with poisoned_memory():
        found, memory = run(layer, rows(count))
    assert torch.equal(found, expected)
    assert all(torch.equal(*pair) for pair in zip(memory.state(0), after.state(0), strict=True))


@pytest.mark.parametrize(("block", "part"), [(64, 64), (300, 128), (128, 64)])
def test_long_runs_go_in_blocks_and_those_in_parts(
    monkeypatch: pytest.MonkeyPatch, block: int, part: int
) -> None:
    whole = rows(300)
    expected, after = run(make_layer(ops=replace(PLAIN_OPS, rows_per_part=None)), whole)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", block)
    found, memory = run(make_layer(ops=replace(PLAIN_OPS, rows_per_part=part)), whole)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.state(0)[1], after.state(0)[1], rtol=1e-4, atol=1e-5)


def test_only_a_token_that_is_generated_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def spy(name: str) -> Any:
        rule = getattr(PLAIN_OPS, name)

        def counted(*given: Any) -> object:
            taken.append(name)
            return rule(*given)

        return counted

    names = ("recurrent_gated_delta_step", "chunked_gated_delta_")
    layer = make_layer(ops=replace(PLAIN_OPS, **{name: spy(name) for name in names}))
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", 64)
    # A prompt's last row alone, and one at the end of a long run, are part of a prefill.
    run(layer, rows(1), rows(2), rows(65))
    assert taken == ["chunked_gated_delta_"] * 4
    memory = ConcatenatingMemory(layer.specs)
    memory.is_step = True
    layer(rows(1), Forward({}, memory), 0)
    assert taken[4:] == ["recurrent_gated_delta_step"]


@pytest.mark.parametrize("count", [1, 2, 70])
def test_the_state_is_moved_on_in_place(count: int) -> None:
    layer = make_layer()
    _, memory = run(layer, rows(9))
    before = memory.state(0)
    copies = [tensor.clone() for tensor in before]
    layer(rows(count), Forward({}, memory), 0)
    for tensor, copy, after in zip(before, copies, memory.state(0), strict=True):
        assert tensor is after
        assert not torch.equal(tensor, copy)
