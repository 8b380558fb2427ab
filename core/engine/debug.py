"""Slow checks of invariants, turned on by WAYMARK_DEBUG=integrity."""

from __future__ import annotations

import os

import torch

from core.api.prompt import Cut, Image, Prompt, TextRun
from core.cache.kv_buffer import KVBuffer
from core.cache.restore import Restored
from core.cache.side import Branch
from core.engine.images import Pictures
from core.engine.loaded import LoadedModel
from core.engine.passes.decode import MOST_TOKENS, Decode
from core.engine.passes.prefill import Prefill


def integrity() -> bool:
    return "integrity" in os.environ.get("WAYMARK_DEBUG", "").split(",")


def check(
    loaded: LoadedModel, prompt: Prompt, restored: Restored, kv_buffer: KVBuffer, pictures: Pictures
) -> None:
    check_positions(prompt)
    loaded.cache.check_integrity()
    check_restored(loaded, prompt, restored, kv_buffer, pictures)


def check_restored(
    loaded: LoadedModel, prompt: Prompt, restored: Restored, kv_buffer: KVBuffer, pictures: Pictures
) -> None:
    if not restored.num_runs:
        return
    scratch = Branch(kv_buffer.beside(prompt.num_tokens))
    cold = loaded.cache.restorer.start(restored.keys)
    prefill = Prefill(loaded.model, scratch, cold, pictures.recomputed(), lambda: None)
    end = restored.cut.token.value
    for done in prefill.run(prompt, frozenset(), end):
        if done == end:
            break
    fresh = [tensor for state in prefill.state.layers.values() for tensor in state]
    held = [tensor for state in restored.state.layers.values() for tensor in state]
    assert all(map(torch.equal, held, fresh)), "a restored state differs from a prefill's"
    row, fresh_row = restored.last_hidden, prefill.last_hidden
    if row is not None:
        same_row = fresh_row is not None and torch.equal(row, fresh_row)
        assert same_row, "a restored hidden row differs from a prefill's"
    for start, layers in ((0, kv_buffer.specs), (max(0, end - kv_buffer.tail), kv_buffer.windowed)):
        for layer in layers:
            pairs = zip(
                kv_buffer.rows_of(layer, start, end),
                scratch.kv_buffer.rows_of(layer, start, end),
                strict=True,
            )
            same = all(torch.equal(*pair) for pair in pairs)
            assert same, "restored keys or values differ from a prefill's"


def check_positions(prompt: Prompt) -> None:
    expected = [list(axis) for axis in zip(*_walk(prompt), strict=True)]
    found: list[list[int]] = [[], [], []]
    for run in prompt.runs:
        for axis, positions in zip(found, run.position_ids(), strict=True):
            axis.extend(positions)
        assert run.end.token.value == len(found[0])
    assert found == expected
    # No two tokens share a position, but on a canvas.
    on_canvas = any(image.canvas for image in prompt.images)
    assert on_canvas or len(set(zip(*found, strict=True))) == prompt.num_tokens


def _walk(prompt: Prompt) -> list[tuple[int, int, int]]:
    walked: list[tuple[int, int, int]] = []
    first = 0
    for segment in prompt.segments:
        if isinstance(segment, Image) and not segment.in_line:
            places = [
                (first, max(0, first + row), max(0, first + column))
                for row, column in segment.places()
            ]
        elif isinstance(segment, TextRun) and segment.back:
            walked += [(first - segment.back,) * 3] * segment.num_tokens
            continue
        else:
            places = [(first + step,) * 3 for step in range(segment.num_tokens)]
        walked += places
        # After an image the next position is the largest on any axis plus one.
        first = 1 + max(max(place) for place in places)
    return walked


def check_generated(decode: Decode, kv_buffer: KVBuffer, start: Cut, num_fed: int) -> None:
    end = start.token.value + max(0, num_fed)
    written = [token for token, _ in decode.places]
    assert len(set(decode.places)) == len(written), "a token's place in the context is doubled"
    assert written == list(range(start.token.value, end)), "the context holds other tokens"
    behind = end, min(end + MOST_TOKENS, kv_buffer.capacity)
    layers = (*kv_buffer.specs, *kv_buffer.windowed)
    stay = any(rows.any() for layer in layers for rows in kv_buffer.rows_of(layer, *behind))
    assert not stay, "keys of rejected tokens stay"
