"""Generating by a graph of a GPU's launches, replayed on a processor (tests.kernels.captured)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from core.loading.precision import VARIABLE
from kernels.common.trace import NotCapturableError, Trace, Tracer
from kernels.ops import PLAIN_OPS
from tests.engine.place import Place
from tests.promises.fixtures import LONG, LoadedOf
from tests.promises.machine import Machine, user

gpu = pytest.importorskip("tests.kernels.gpu", reason="Triton is published for Linux alone")
graph = pytest.importorskip("kernels.graph")
captured = pytest.importorskip("tests.kernels.captured")
pytestmark = pytest.mark.skipif(gpu.ON_GPU, reason="the engines here are on the processor")

CPU = torch.device("cpu")
Step = Callable[[Tracer], Tensor]


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "gpu")
    # Short contexts: most splits would be empty, and each takes the interpreter as long.
    monkeypatch.setattr("kernels.attention.gpu.SPLITS", 4)
    with gpu.hardware_arithmetic(), captured.as_on_a_gpu():
        yield


def tracer() -> StepCapture:
    return StepCapture(partial(graph.capture_step, CPU, captured.capture))


@pytest.mark.parametrize(
    ("family", "precision"), [("hybrid", "bfloat16"), ("hybrid", "int4"), ("gemma3", "int8")]
)
@pytest.mark.slow
def test_replies_have_the_bits_of_forwards(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    """Over the end of what attention takes in a step, and with a reply that begins elsewhere."""
    place, captured = Place(loaded_of(family, precision), 31), tracer()
    expected = place.logits(StepCapture(None), 3)
    assert all(map(torch.equal, place.logits(captured, 3), expected))
    assert not torch.equal(expected[1], expected[2])
    place.fill(1)
    other = place.logits(StepCapture(None), 1)
    place.fill(1)
    assert all(map(torch.equal, place.logits(captured, 1), other))
    steps = captured.step(place.model, place.kv_buffer)
    assert steps.num_traces == 1, "nothing was captured"


@pytest.mark.parametrize(
    ("family", "precision"), [("hybrid", "bfloat16"), ("hybrid", "int8"), ("falcon_h1", "bfloat16")]
)
@pytest.mark.slow
def test_steps_of_several_tokens_are_captured_too(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    """To the bits that they have where they are computed, and what is kept of them as well."""
    sizes = [(3, 2), (3, 3), (1, 1), (3, 1), (3, 2)]
    place, captured = Place(loaded_of(family, precision), 31), tracer()
    expected = place.logits_of_steps(StepCapture(None), sizes)
    assert all(map(torch.equal, place.logits_of_steps(captured, sizes), expected))
    steps = captured.step(place.model, place.kv_buffer)
    assert steps.num_traces == 2


@pytest.mark.slow
def test_replies_have_the_bits_of_forwards_where_a_window_moves_on(loaded_of: LoadedOf) -> None:
    place = Place(loaded_of("granite_swa_long", "bfloat16"), 1_014, limit=LONG)
    expected, captured = place.logits(StepCapture(None), 5), tracer()
    again = Place(loaded_of("granite_swa_long", "bfloat16"), 1_014, limit=LONG)
    assert all(map(torch.equal, again.logits(captured, 5), expected))
    assert again.kv_buffer.base() > 0
    assert captured.step(again.model, again.kv_buffer).num_traces == 1


@pytest.mark.slow
def test_a_whole_reply_is_the_same(loaded_of: LoadedOf) -> None:
    loaded, chat = loaded_of("hybrid", "bfloat16"), [user("Hello")]
    expected = Machine(loaded).ask(chat)
    captured = tracer()
    found = Machine(replace(loaded, steps=captured)).ask(chat)
    assert found.ids == expected.ids and len(found.ids) > 2
    assert captured._steps is not None and captured._steps.num_traces == 1


def plays_plain_attention(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = loaded.model
    block = model.blocks[-1]
    ops = replace(block.mixer._ops, step_attention=PLAIN_OPS.step_attention)
    monkeypatch.setattr(block.mixer, "_ops", ops)


def waits(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = loaded.model
    norm = model.norm

    def norm_that_looks(hidden: Tensor) -> Any:
        float(hidden.sum())
        return norm(hidden)

    monkeypatch.setattr(model, "norm", norm_that_looks)


@pytest.mark.parametrize(
    ("meddle", "reason"),
    [
        (plays_plain_attention, "aten."),
        (waits, "no graph: operation not permitted when stream is capturing"),
    ],
)
def test_what_cannot_be_recorded_is_computed(
    loaded_of: LoadedOf,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    meddle: Callable[[LoadedModel, pytest.MonkeyPatch], None],
    reason: str,
) -> None:
    loaded, captured = loaded_of("hybrid", "bfloat16"), tracer()
    meddle(loaded, monkeypatch)
    place = Place(loaded, 10)
    expected = place.logits(StepCapture(None), 3)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(captured, 3), expected))
    assert captured._capture is None and captured._steps is None
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith(f"Steps are not captured: {reason}")


def errs(token: int, step: Step) -> tuple[Trace, Tensor]:
    trace, result = graph.capture_step(CPU, captured.capture, token, step)
    replay = trace._replay
    trace._replay = lambda: (replay(), result.add_(1))
    return trace, result


def takes_the_token_for_a_constant(token: int, step: Step) -> tuple[Trace, Tensor]:
    trace, result = graph.capture_step(CPU, captured.capture, token, step)
    replay = trace.replay
    trace.replay = lambda _, *others: replay(token, *others)
    return trace, result


def writes_the_same_row_always(token: int, step: Step) -> tuple[Trace, Tensor]:
    trace, result = graph.capture_step(CPU, captured.capture, token, step)
    replay = trace._replay
    trace._replay = lambda: (trace._whole.row.copy_(trace._order + token), replay())
    return trace, result


def leaves_states_as_they_were(token: int, step: Step) -> tuple[Trace, Tensor]:
    trace, result = graph.capture_step(CPU, captured.capture, token, step)
    cells: Any = step.__closure__
    (owner,) = (cell.cell_contents for cell in cells if hasattr(cell.cell_contents, "_state"))
    replay = trace._replay

    def forget() -> None:
        before = owner._state.copy()
        replay()
        owner._state.copy_from(before)

    trace._replay = forget
    return trace, result


@pytest.mark.parametrize(
    "fault",
    [
        writes_the_same_row_always,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (errs, takes_the_token_for_a_constant, leaves_states_as_they_were)
        ),
    ],
)
def test_a_recording_that_gives_other_bits_is_not_used(
    loaded_of: LoadedOf, caplog: pytest.LogCaptureFixture, fault: Any
) -> None:
    place, captured = Place(loaded_of("hybrid", "bfloat16"), 10), StepCapture(fault)
    expected = place.logits(StepCapture(None), 3)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(captured, 3), expected))
    assert "replayed it gives other bits" in caplog.text


def test_a_length_that_does_not_grow_is_refused() -> None:
    lengths, cell = graph.Lengths(), torch.tensor([7])
    rows = torch.zeros(9, 1)
    assert int(lengths.of(rows)) == 9
    stored = graph.Stored(8, torch.tensor([8]), cell)
    with lengths.read_from({rows.untyped_storage().data_ptr(): stored}):
        assert torch.equal(lengths.of(rows), cell)
        for other in (rows[:8], rows.clone()):
            with pytest.raises(NotCapturableError, match="don't grow"):
                lengths.of(other)
    assert int(lengths.of(rows[:8])) == 8
