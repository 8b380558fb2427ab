"""What Mamba-1 and Mamba-2 have in common as layers: parts, blocks, and nothing of old memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from core.layers import runs
from kernels.ops import PLAIN_OPS
from tests.kernels.poison import poisoned_memory
from tests.layers import test_mamba1, test_mamba2


@pytest.fixture(params=[test_mamba1, test_mamba2], ids=["mamba1", "mamba2"])
def mixer(request: pytest.FixtureRequest) -> Any:
    """The tests of one, which make a layer, its rows, and run it."""
    return request.param


@pytest.mark.parametrize("cut", [1, 2, 3, 64, 69])
def test_a_run_in_two_is_the_run_in_one(mixer: Any, cut: int) -> None:
    layer, whole = mixer.make_layer(), mixer.rows(70)
    expected, after = mixer.run(layer, whole)
    found, memory = mixer.run(layer, whole[:cut], whole[cut:])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(memory.state(0), after.state(0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 65, 130])
def test_nothing_depends_on_memory_that_was_not_written(mixer: Any, count: int) -> None:
    layer = mixer.make_layer()
    expected, after = mixer.run(layer, mixer.rows(count))
    with poisoned_memory():
        found, memory = mixer.run(layer, mixer.rows(count))
    assert torch.equal(found, expected)
    assert all(torch.equal(*pair) for pair in zip(memory.state(0), after.state(0), strict=True))


@pytest.mark.parametrize(("block", "part"), [(64, 64), (300, 128), (128, 64)])
def test_long_runs_go_in_blocks_and_those_in_parts(
    mixer: Any, monkeypatch: pytest.MonkeyPatch, block: int, part: int
) -> None:
    whole = mixer.rows(300)
    expected, after = mixer.run(mixer.make_layer(ops=replace(PLAIN_OPS, rows_per_part=None)), whole)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", block)
    found, memory = mixer.run(mixer.make_layer(ops=replace(PLAIN_OPS, rows_per_part=part)), whole)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.state(0)[1], after.state(0)[1], rtol=1e-4, atol=1e-5)
