"""Generating by a captured step: the same bits, for every family, precision and reply."""

from __future__ import annotations

import ctypes
import gc
import logging
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.errors import RequestCancelled
from core.cache.kv_buffer import GROWTH, KVBuffer
from core.engine.passes.captured import StepCapture
from kernels.ops import PLAIN_OPS
from tests.engine.place import LIMIT, Place, sweep
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.fixtures import PURE, RECURRENT, LoadedOf
from tests.promises.machine import Machine, user

FAMILIES = ("hybrid", "text", *PURE, *RECURRENT)
COMPILED = ("bfloat16", "int8", "int4")


@NEEDS_COMPILER
@pytest.mark.parametrize(("family", "precision"), sweep(FAMILIES, COMPILED))
def test_replies_have_the_bits_of_forwards(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    """Over the end of a stretch of attention, and where the KV buffer grows."""
    loaded = loaded_of(family, precision)
    tracer = loaded.steps
    for tokens in (1, 250, GROWTH - 3):
        place = Place(loaded, tokens)
        expected = place.logits(StepCapture(None), 20)
        assert all(map(torch.equal, place.logits(tracer, 20), expected)), tokens
        steps = tracer.step(place.model, place.kv_buffer)
        assert steps.num_traces == 1, "nothing was captured"


@NEEDS_COMPILER
@pytest.mark.parametrize(("family", "precision"), sweep(FAMILIES, COMPILED))
def test_steps_of_several_tokens_have_the_bits_of_single_ones(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    """Captured or not: the logits, rows and states that are kept."""
    loaded = loaded_of(family, precision)
    draw = random.Random(1)
    sizes = [(size, draw.randint(1, size)) for size in [*range(1, 9), *range(8, 0, -1)]]
    sizes += [(8, 8), (1, 1), (5, 1), (5, 4), (5, 1), (1, 1)]
    total = sum(kept for _, kept in sizes)
    for tracer in (StepCapture(None), loaded.steps):
        place = Place(loaded, 125)
        expected = place.logits(StepCapture(None), total)
        rows = place.kv_buffer.copy_out(0, 125 + total)
        place.kv_buffer.clear(125, LIMIT)
        found = place.logits_of_steps(tracer, sizes)
        assert len(found) == total and all(map(torch.equal, found, expected))
        for pair, own in zip(
            rows.layers.values(), place.kv_buffer.view(0, 125 + total).layers.values(), strict=True
        ):
            assert all(map(torch.equal, pair, own))
        behind = place.kv_buffer.view(125 + total, LIMIT).layers.values()
        assert not any(each.any() for pair in behind for each in pair)


@NEEDS_COMPILER
def test_a_slow_models_steps_of_several_tokens_are_captured_once_they_pay(
    loaded_of: LoadedOf,
) -> None:
    """Until then they are computed, over the same states and to the same bits."""
    loaded = loaded_of("hybrid", "int8")
    place, tracer = Place(loaded, 10), StepCapture(loaded.steps._capture)
    sizes = [(1, 1), (3, 2), (3, 3), (1, 1), (3, 1), (3, 2), (3, 3), (1, 1)]
    expected = place.logits(StepCapture(None), sum(kept for _, kept in sizes))
    steps = tracer.step(place.model, place.kv_buffer)
    found, decode = list[Tensor](), place.decode(tracer)
    with torch.inference_mode():
        for number, (size, kept) in enumerate(sizes):
            steps._step_s = 0.3  # of which three are worth as much as four uses
            ids = [token % 50 for token in range(len(found), len(found) + size)]
            found += decode.step([*ids[:kept], *(49 - each for each in ids[kept:])])[:kept].clone()
            decode.keep(kept)
            assert steps.num_traces == (2 if number >= 5 else 1)
    assert all(map(torch.equal, found, expected))


@NEEDS_COMPILER
def test_a_recording_serves_other_replies_and_leaves_their_states(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("hybrid", "int8")
    place, tracer = Place(loaded, 60), StepCapture(loaded.steps._capture)
    place.logits(tracer, 5)
    trace = tracer.step(place.model, place.kv_buffer)
    for seed in (1, 2):
        place.fill(seed)
        before = place.state.copy()
        expected = place.logits(StepCapture(None), 9)
        place.fill(seed)
        assert all(map(torch.equal, place.logits(tracer, 9), expected))
        for layer, state in before.layers.items():
            assert all(map(torch.equal, state, place.state.layers[layer]))
    assert tracer.step(place.model, place.kv_buffer) is trace


@NEEDS_COMPILER
def test_it_can_be_cancelled_between_layers(loaded_of: LoadedOf) -> None:
    place = Place(loaded_of("hybrid", "bfloat16"), 10)
    tracer = StepCapture(loaded_of("hybrid", "bfloat16").steps._capture)
    expected = place.logits(tracer, 3)
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise RequestCancelled("cancelled")

    with torch.inference_mode():
        decode = place.decode(tracer, look)
        with pytest.raises(RequestCancelled):
            decode.step([0])
    assert looks == 3
    assert all(map(torch.equal, place.logits(tracer, 3), expected))


@NEEDS_COMPILER
def test_what_cannot_be_recorded_is_computed(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last layer adds with torch: states and rows of the step that failed are not used."""
    loaded = loaded_of("hybrid", "bfloat16")
    place, tracer = Place(loaded, 10), StepCapture(loaded.steps._capture)
    blocks = loaded.model.blocks
    monkeypatch.setattr(blocks[-1], "_add", PLAIN_OPS.add)
    expected = place.logits(StepCapture(None), 4)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(tracer, 4), expected))
        assert all(map(torch.equal, place.logits(tracer, 4), expected))
    assert [record.message for record in caplog.records] == [
        "Steps are not captured: aten.add.Tensor"
    ]


@NEEDS_COMPILER
def test_what_takes_a_row_for_a_constant_is_computed(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Something of the first row gets into the trace past torch, as a choice of experts could."""
    loaded = loaded_of("hybrid", "bfloat16")
    place, tracer = Place(loaded, 10), StepCapture(loaded.steps._capture)
    block = loaded.model.blocks[-1]
    given = list[Tensor]()
    compute, add = loaded.model.through, block._add

    def through(hidden: Tensor, *others: Any, **named: Any) -> Tensor:
        given[:] = [hidden]
        return compute(hidden, *others, **named)

    def adds(first: Tensor, second: Tensor, multiplier: float = 1.0, scale: float = 1.0) -> Tensor:
        bits = ctypes.c_uint16.from_address(given[0].data_ptr()).value
        total: Tensor = add(first, second, multiplier * (1 + bits / 2**16), scale)
        return total

    monkeypatch.setattr(loaded.model, "through", through)
    monkeypatch.setattr(block, "_add", adds)
    expected = place.logits(StepCapture(None), 4)
    with caplog.at_level(logging.INFO):
        assert all(map(torch.equal, place.logits(tracer, 4), expected))
    assert [record.message for record in caplog.records] == [
        "Steps are not captured: replayed it gives other bits"
    ]


@NEEDS_COMPILER
def test_a_side_request_leaves_nothing_behind(loaded_of: LoadedOf) -> None:
    """Its KV buffer goes, and the chat's trace stays the chat's."""
    loaded = loaded_of("hybrid", "int8")
    machine = Machine(loaded)
    chat = [user("Hello there")]
    expected = machine.ask(chat)
    trace, kv_buffers = loaded.steps._steps, living(KVBuffer)
    assert trace is not None
    aside = machine.ask(chat, side=True)
    assert aside.ids == expected.ids and len(aside.ids) > 1
    assert living(KVBuffer) == kv_buffers and loaded.steps._steps is trace


def living(kind: type) -> int:
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_kernels_that_record_nothing_compute_every_step(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("hybrid")
    place = Place(loaded, 10)
    assert all(map(torch.equal, *(place.logits(loaded.steps, 3) for _ in range(2))))
    assert loaded.steps._capture is None and loaded.steps._steps is None
