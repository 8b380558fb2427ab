"""Generating by a graph of a GPU's launches, played on a processor (tests.kernels.captured)."""

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
from core.engine.passes.captured import StepRecorder
from core.loading.backend import VARIABLE
from kernels.common.trace import NotRecordableError, Recorder, Recording
from kernels.ops import PLAIN_OPS
from tests.engine.place import Place
from tests.promises.machine import Machine, user

gpu = pytest.importorskip("tests.kernels.gpu", reason="Triton is published for Linux alone")
graph = pytest.importorskip("kernels.graph")
captured = pytest.importorskip("tests.kernels.captured")
pytestmark = pytest.mark.skipif(gpu.ON_GPU, reason="the engines here are on the processor")

CPU = torch.device("cpu")
Step = Callable[[Recorder], Tensor]


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "gpu")
    with gpu.hardware_arithmetic(), captured.as_on_a_gpu():
        yield


def recorder() -> StepRecorder:
    return StepRecorder(partial(graph.record, CPU, captured.capture))


@pytest.mark.parametrize(
    ("family", "precision"), [("hybrid", "bfloat16"), ("hybrid", "int4"), ("gemma3", "int8")]
)
def test_replies_have_the_bits_of_forwards(
    loaded_of: Callable[..., LoadedModel], family: str, precision: str
) -> None:
    """Over the end of what attention takes in a step, and with a reply that begins elsewhere."""
    place, recorded = Place(loaded_of(family, precision), 31), recorder()
    expected = place.logits(StepRecorder(None), 3)
    assert all(map(torch.equal, place.logits(recorded, 3), expected))
    assert not torch.equal(expected[1], expected[2])
    place.fill(1)
    other = place.logits(StepRecorder(None), 1)
    place.fill(1)
    assert all(map(torch.equal, place.logits(recorded, 1), other))
    step = recorded.step(place.model, place.slab)
    assert step is not None and step._recording is not None, "nothing was recorded"


def test_a_whole_reply_is_the_same(loaded_of: Callable[..., LoadedModel]) -> None:
    loaded, chat = loaded_of("hybrid", "bfloat16"), [user("Hello")]
    expected = Machine(loaded).ask(chat)
    recorded = recorder()
    found = Machine(replace(loaded, steps=recorded)).ask(chat)
    assert found.ids == expected.ids and len(found.ids) > 2
    assert recorded._step is not None and recorded._step._recording is not None


def plays_plain_attention(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = loaded.model
    block = model.blocks[-1]
    ops = replace(block.mixer._ops, causal_attention=PLAIN_OPS.causal_attention)
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
    loaded_of: Callable[..., LoadedModel],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    meddle: Callable[[LoadedModel, pytest.MonkeyPatch], None],
    reason: str,
) -> None:
    loaded, recorded = loaded_of("hybrid", "bfloat16"), recorder()
    meddle(loaded, monkeypatch)
    place = Place(loaded, 10)
    expected = place.logits(StepRecorder(None), 3)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(recorded, 3), expected))
    assert recorded.step(place.model, place.slab) is None
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith(f"Steps are not recorded: {reason}")


def errs(token: int, step: Step) -> tuple[Recording, Tensor]:
    recording, result = graph.record(CPU, captured.capture, token, step)
    replay = recording._replay
    recording._replay = lambda: (replay(), result.add_(1))
    return recording, result


def takes_the_token_for_a_constant(token: int, step: Step) -> tuple[Recording, Tensor]:
    recording, result = graph.record(CPU, captured.capture, token, step)
    play = recording.play
    recording.play = lambda _, check: play(token, check)
    return recording, result


def writes_the_same_row_always(token: int, step: Step) -> tuple[Recording, Tensor]:
    recording, result = graph.record(CPU, captured.capture, token, step)
    replay = recording._replay
    recording._replay = lambda: (recording._row.fill_(token), replay())
    return recording, result


def leaves_states_as_they_were(token: int, step: Step) -> tuple[Recording, Tensor]:
    recording, result = graph.record(CPU, captured.capture, token, step)
    cells: Any = step.__closure__
    (owner,) = (cell.cell_contents for cell in cells if _has_state(cell))
    replay = recording._replay

    def forget() -> None:
        before = owner._state.copy()
        replay()
        owner._state.take(before)

    recording._replay = forget
    return recording, result


def _has_state(cell: Any) -> bool:
    return hasattr(cell.cell_contents, "_state")


@pytest.mark.parametrize(
    "fault",
    [
        errs,
        takes_the_token_for_a_constant,
        writes_the_same_row_always,
        leaves_states_as_they_were,
    ],
)
def test_a_recording_that_gives_other_bits_is_not_used(
    loaded_of: Callable[..., LoadedModel], caplog: pytest.LogCaptureFixture, fault: Any
) -> None:
    place, recorded = Place(loaded_of("hybrid", "bfloat16"), 10), StepRecorder(fault)
    expected = place.logits(StepRecorder(None), 3)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(recorded, 3), expected))
    assert "played it gives other bits" in caplog.text


def test_a_length_that_does_not_grow_is_refused() -> None:
    lengths, cell = graph.Lengths(), torch.tensor([7])
    rows = torch.zeros(9, 1)
    assert int(lengths.of(rows)) == 9
    with lengths.read_from(cell, 9):
        assert lengths.of(rows) is cell
        with pytest.raises(NotRecordableError, match="don't grow"):
            lengths.of(rows[:8])
    assert int(lengths.of(rows[:8])) == 8
