"""Somewhere to go on from: for tests of what generates, computed or captured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from core.api.positions import PositionIndex, TokenIndex
from core.api.prompt import Cut
from core.cache.kv_buffer import GROWTH, KVBuffer
from core.cache.state import RecurrentState
from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from core.engine.passes.decode import Decode
from tests.promises.fixtures import FEW
from tests.sweeps import thinned

LIMIT = GROWTH + 40


def sweep(families: Iterable[str], precisions: Sequence[str]) -> list[object]:
    """Families by precisions: the first family in all, others of FEW in int8; the rest is slow."""
    first, *others = families
    quick = [(first, each) for each in precisions] + [(each, "int8") for each in others]
    quick = [each for each in quick if each[0] in (first, *FEW)]
    return thinned(itertools.product((first, *others), precisions), quick)


def go_on() -> None:
    """Nobody cancels."""


class Place:
    """Somewhere behind a context of random rows and states, in a KV buffer of its own."""

    def __init__(self, loaded: LoadedModel, tokens: int, seed: int = 0, limit: int = LIMIT) -> None:
        self.model = loaded.model
        self.start = Cut(TokenIndex(tokens), PositionIndex(tokens + 3))
        self.kv_buffer = KVBuffer(self.model.layer_specs, self.model.device, limit)
        self.kv_buffer.reserve(tokens)
        self.fill(seed)

    def fill(self, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        for layer in (*self.kv_buffer.specs, *self.kv_buffer.windowed):
            for rows in self.kv_buffer.rows_of(layer, 0, self.start.token.value):
                rows.copy_(torch.randn(rows.shape, generator=draw))
        self.state = RecurrentState.zeros(self.model.layer_specs, self.model.device).copy()
        for state in self.state.layers.values():
            for tensor in state:
                tensor.copy_(torch.randn(tensor.shape, generator=draw))

    def decode(self, tracer: StepCapture, check: Callable[[], None] = go_on) -> Decode:
        parts = (self.model, self.kv_buffer, self.state, self.start)
        return Decode(*parts, check, tracer)

    @torch.inference_mode()
    def logits(self, tracer: StepCapture, count: int) -> list[Tensor]:
        decode = self.decode(tracer)
        return [decode.step([token % 50])[0].clone() for token in range(count)]

    @torch.inference_mode()
    def logits_of_steps(
        self, tracer: StepCapture, sizes: Sequence[tuple[int, int]]
    ) -> list[Tensor]:
        """Over the same tokens in steps of several: so many of each step, of which so many are
        kept; the others are wrong."""
        decode, found = self.decode(tracer), list[Tensor]()
        for size, kept in sizes:
            right = [token % 50 for token in range(len(found), len(found) + kept)]
            wrong = [(7 * token + 3) % 50 for token in range(size - kept)]
            found += decode.step([*right, *wrong])[:kept].clone()
            decode.keep(kept)
        return found
