"""A captured step of a GPU: a CUDA graph on one, else what it is made of, kept and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.trace import NotCapturableError, Tracer

graph = pytest.importorskip("kernels.graph")
gpu_ops = pytest.importorskip("kernels.gpu_ops", reason="Triton is published for Linux alone")
fake = pytest.importorskip("tests.kernels.captured")
pytestmark = pytest.mark.gpu

FIRST, ROWS, HEADS, DIM = 3, 40, 2, 16


@pytest.fixture(autouse=True)
def _one_way(device: torch.device) -> Iterator[None]:
    with torch.inference_mode(), fake.as_on_a_gpu():
        yield


class Step:
    """Stores a row, attends to all so far, and moves a state on in place."""

    def __init__(self, device: torch.device) -> None:
        def draw(*shape: int) -> Tensor:
            return torch.randn(shape, generator=numbers).to(device)

        numbers = torch.Generator().manual_seed(0)
        self.rows, self.hidden = draw(ROWS, 1, DIM), draw(1, HEADS, DIM)
        self.state = draw(1, HEADS, DIM)

    def __call__(self, tracer: Tracer, token: int) -> Tensor:
        row = (self.hidden[:, :1] + self.state[:, :1]).contiguous()
        tracer.store(row, self.rows)
        rows = self.rows[: token + 1]
        attended = gpu_ops.causal_attention(self.hidden, rows, rows, 0.25, None)
        self.state.mul_(0.5).add_(attended)
        result: Tensor = attended * 2 + self.state
        return result


class Plain:
    """Writes rows where the token is."""

    def __init__(self, token: int) -> None:
        self._token = token

    def store(self, new: Tensor, rows: Tensor, base: int | None = None) -> None:
        rows[self._token : self._token + 1] = new

    def copy(self, numbers: Tensor, to: Tensor, *, soon: bool) -> None:
        to.copy_(numbers)

    def part(self) -> None:
        """Nobody looks."""


def captured(step: Step) -> tuple[Any, Tensor]:
    device = step.rows.device
    capture = graph.cuda_capture if device.type == "cuda" else fake.capture
    found: tuple[Any, Tensor] = graph.capture_step(
        device, capture, FIRST, lambda tracer: step(tracer, FIRST)
    )
    return found


def test_it_is_played_for_other_tokens_over_other_inputs(device: torch.device) -> None:
    replayed, computed = Step(device), Step(device)
    trace, result = captured(replayed)
    for token in range(FIRST, ROWS):
        expected = computed(Plain(token), token)
        if token > FIRST:
            trace.replay(token, lambda: None)
        assert torch.equal(result, expected), token
        assert torch.equal(replayed.state, computed.state)
        assert torch.equal(replayed.rows, computed.rows)
        for step in (replayed, computed):
            step.hidden.mul_(0.9).add_(0.01 * token)


class Waits(Step):
    """Looks at a result."""

    def __call__(self, tracer: Tracer, token: int) -> Tensor:
        result = super().__call__(tracer, token)
        return result * float(result.sum())


def test_a_step_that_waits_is_refused_and_leaves_the_stream(device: torch.device) -> None:
    with pytest.raises(NotCapturableError, match="no graph"):
        captured(Waits(device))
    if device.type == "cuda":
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        torch.cuda.empty_cache()
    test_it_is_played_for_other_tokens_over_other_inputs(device)
