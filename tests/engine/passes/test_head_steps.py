"""Captured steps of an MTP head over a few tokens have the bits of each token alone."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from core.cache.kv_buffer import GROWTH
from core.engine.passes.captured import StepCapture
from core.engine.passes.mtp import HeadSteps
from kernels.common.trace import NotCapturableError, Trace, Tracer
from tests.engine.place import Place, go_on, sweep
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.fixtures import HEADED, LoadedOf

pytestmark = NEEDS_COMPILER


@torch.inference_mode()
def rows(place: Place, steps: HeadSteps, sizes: list[int]) -> list[Tensor]:
    """The head's result and rows of tokens behind the place, so many at a time."""
    model, draw = place.model, torch.Generator().manual_seed(2)
    first, found = place.start.token.value, list[Tensor]()
    count = sum(sizes)
    wide = torch.randn(count, model.hidden_size, generator=draw).to(model.dtype)
    inputs = model.head_inputs(model.embed(torch.arange(count) % 50), wide)
    for size in sizes:
        done = len(found)
        positions = torch.arange(first + done, first + done + size).expand(3, -1)
        given = inputs[done : done + size], model.rotations(positions, (1,) * size)
        found += steps.forward(first + done, *given, go_on).clone()
    layer = len(model.layer_specs) - 1
    return [*found, *(each[1 : first + count].clone() for each in place.kv_buffer.rows(layer))]


@pytest.mark.parametrize(("family", "precision"), sweep(HEADED, ("bfloat16", "int8", "int4")))
def test_drafts_have_the_bits_of_forwards(loaded_of: LoadedOf, family: str, precision: str) -> None:
    """Over the end of a stretch of attention, and where the KV buffer grows."""
    loaded, sizes = loaded_of(family, precision), [5, 1, 8, 2, 7, 3, 6, 4]
    for tokens in (1, 250, GROWTH - 3):
        place = Place(loaded, tokens)
        expected = rows(place, HeadSteps(place.model, place.kv_buffer, None), [1] * sum(sizes))
        place = Place(loaded, tokens)
        steps = loaded.steps.head(place.model, place.kv_buffer)
        for order in (sizes, sizes[::-1]):
            place.kv_buffer.clear(tokens, tokens + sum(sizes))
            assert all(map(torch.equal, rows(place, steps, order), expected)), tokens
            assert steps.num_traces == 8
        assert loaded.steps.head(place.model, place.kv_buffer) is steps


def test_what_cannot_be_captured_is_computed(
    loaded_of: LoadedOf, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(token: int, step: Callable[[Tracer], Tensor]) -> tuple[Trace, Tensor]:
        raise NotCapturableError("a pump")

    loaded = loaded_of("headed", "int8")
    place, other = Place(loaded, 20), Place(loaded, 20)
    steps = StepCapture(refuses).head(place.model, place.kv_buffer)
    with caplog.at_level(logging.INFO):
        found = rows(place, steps, [1, 3, 1])
    expected = rows(other, HeadSteps(other.model, other.kv_buffer, None), [1] * 5)
    assert all(map(torch.equal, found, expected)) and steps.num_traces == 0
    assert [each.message for each in caplog.records] == [
        "Drafts of the head are not captured: a pump"
    ]
