"""The gated short convolution as a layer: its memory, long runs in blocks, several in one call."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.layers import runs
from core.layers.memory import Forward, RecurrentSpec
from core.layers.short_conv import ShortConv
from kernels.common.shapes import ShortConvShape
from tests.kernels.poison import poisoned_memory
from tests.layers.sources import bias_of, random_weights, weight_of
from tests.models.memory import ConcatenatingMemory

WIDTH = 12


def make_layer(dtype: torch.dtype = torch.float32, bias: bool = True) -> ShortConv:
    return ShortConv(random_weights(dtype), ShortConvShape(WIDTH, 3), bias=bias)


def run(layer: ShortConv, *pieces: Tensor) -> tuple[Tensor, ConcatenatingMemory]:
    memory = ConcatenatingMemory(layer.specs)
    return torch.cat([layer(piece, Forward({}, memory), 0) for piece in pieces]), memory


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def test_the_spec_is_the_state_it_stores() -> None:
    layer = make_layer(torch.bfloat16)
    assert isinstance(layer.specs[0], RecurrentSpec) and layer.specs[0].num_bytes == 2 * WIDTH * 2
    _, memory = run(layer, rows(5).bfloat16())
    stored = [(tuple(tensor.shape), tensor.dtype) for tensor in memory.state(0)]
    assert stored == [((2, WIDTH), torch.bfloat16)]


def test_the_last_token_sees_two_before_it() -> None:
    layer, whole = make_layer(), rows(9)
    found, memory = run(layer, whole)
    projected = whole @ weight_of(layer.projection).T + bias_of(layer.projection)
    before, after, inputs = projected.chunk(3, 1)
    assert layer.bias is not None
    read = after[8] * (((before * inputs)[6:] * layer.conv).sum(0) + layer.bias)
    expected = read @ weight_of(layer.output).T + bias_of(layer.output)
    torch.testing.assert_close(found[8], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.state(0)[0], (before * inputs)[7:])


@pytest.mark.parametrize("cut", [1, 2, 3, 64, 69])
def test_a_run_in_two_is_the_run_in_one(cut: int) -> None:
    layer, whole = make_layer(bias=False), rows(70)
    expected, after = run(layer, whole)
    found, memory = run(layer, whole[:cut], whole[cut:])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.state(0)[0], after.state(0)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 65])
def test_nothing_depends_on_memory_that_was_not_written(count: int) -> None:
    layer = make_layer()
    expected, after = run(layer, rows(count))
    with poisoned_memory():
        found, memory = run(layer, rows(count))
    assert torch.equal(found, expected) and torch.equal(memory.state(0)[0], after.state(0)[0])


@pytest.mark.parametrize("block", [1, 64, 299])
def test_long_runs_go_in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    whole = rows(300)
    expected, after = run(make_layer(), whole)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", block)
    found, memory = run(make_layer(), whole)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.state(0)[0], after.state(0)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("count", "is_step"), [(1, True), (1, False), (70, False)])
def test_the_state_is_moved_on_in_place(count: int, is_step: bool) -> None:
    layer = make_layer()
    _, memory = run(layer, rows(9))
    memory.is_step = is_step
    (before,) = memory.state(0)
    copy = before.clone()
    layer(rows(count), Forward({}, memory), 0)
    assert memory.state(0)[0] is before and not torch.equal(before, copy)
