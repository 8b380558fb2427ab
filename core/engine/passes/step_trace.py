"""The trace of steps of so many tokens: captured, validated, replayed, and taken back in part.

A trace knows places in memory. So it has states of its own, which take over those of every
reply, and belongs to one slab, whose rows never move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.computed import advance
from core.engine.passes.run_memory import StepMemory
from core.layers.memory import Advance
from core.layers.rope import Rotations, copy_rotations
from core.models.decoder import Decoder
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer


class StepPlaces:
    """Where the traces over one slab read and write; `state` is that after the last step."""

    def __init__(self, model: Decoder, slab: KVSlab, state: RecurrentState) -> None:
        self.model, self.slab, self.state = model, slab, state

    @cached_property
    def before(self) -> RecurrentState:
        """That before the last step of several tokens."""
        return self.state.room()


class StepTrace:
    """Steps of so many tokens: where what goes in lies, and the trace."""

    def __init__(self, places: StepPlaces, capture: Capture, num_tokens: int) -> None:
        model = places.model
        self._places, self._capture, self._num_tokens = places, capture, num_tokens
        # Made before the capture: a graph's own memory is used again.
        self._before = places.before if num_tokens > 1 else None
        self._hidden = torch.empty(
            num_tokens, model.hidden_size, dtype=model.dtype, device=model.device
        )
        positions = torch.zeros(3, num_tokens, dtype=torch.int64, device=model.device)
        self._rotations = model.rotations(positions, (1,) * num_tokens)
        self.result = self._hidden
        self._trace: Trace
        self._advances: list[tuple[int, Advance]] = []
        self._shorter: dict[int, Trace] = {}

    @property
    def num_shorter(self) -> int:
        """How many numbers of tokens were kept of it."""
        return len(self._shorter)

    def fill(self, embeddings: Tensor, rotations: Rotations) -> None:
        """What the next step is about."""
        self._hidden.copy_(embeddings)
        copy_rotations(rotations, self._rotations)

    def replay(self, token: int, check: Callable[[], None]) -> None:
        """The step that was filled in, as `Trace`."""
        self._trace.replay(token, check)

    def note(self, token: int, check: Callable[[], None]) -> None:
        """Compute the step and keep it. Raises NotCapturableError, with the states of before."""
        state = self._places.state
        before = state.copy()
        try:
            self._trace, self.result = self._capture(token, self._step(token, check))
            self._validate(before, token, check)
        except BaseException:
            state.copy_from(before)
            raise

    def keep(self, count: int) -> None:
        """Update the states from before the step over its first `count` tokens."""
        if count in self._shorter:
            self._shorter[count].replay(0, lambda: None)
            return

        def step(tracer: Tracer) -> Tensor:
            state, before = self._places.state, self._before
            assert before is not None
            for layer, advances in groupby(self._advances, itemgetter(0)):
                for own, given in zip(state.layers[layer], before.layers[layer], strict=True):
                    tracer.copy(given, own, soon=True)
                advance(state, advances, count)
            return self._hidden

        self._shorter[count], _ = self._capture(0, step)

    def _validate(self, before: RecurrentState, token: int, check: Callable[[], None]) -> None:
        """Compute the next token's step over another row, and replay it: result, states and rows
        must have the same bits. Then replay the first token's again: nothing of it stays.

        What goes wrong in a trace shows in no error: a place that something else uses as well,
        a number that was taken for a constant, such as which experts the first row went to.
        """
        slab, state = self._places.slab, self._places.state
        last = slab.capacity - self._num_tokens
        first, later = self.result.clone(), min(token + 1, last)
        given = self._hidden.clone()
        self._hidden.copy_(given.roll(1, dims=1))
        after = state.copy()
        memory = StepMemory(slab, after, TokenIndex(later), check, self._num_tokens)
        computed = self._places.model.through(self._hidden, self._rotations, memory)
        # Not those of an MTP head, which no step writes.
        view = slab.view(later, later + self._num_tokens).layers
        rows = [each for layer in memory.kv_layers for each in view[layer]]
        expected = [computed, *_tensors(after), *(each.clone() for each in rows)]
        for each in rows:
            each.zero_()
        self._trace.replay(later, check)
        alike = all(map(torch.equal, (self.result, *_tensors(state), *rows), expected))
        for each in rows:
            each.zero_()
        state.copy_from(before)
        self._hidden.copy_(given)
        self._trace.replay(token, check)
        if not (alike and torch.equal(self.result, first)):
            raise NotCapturableError("replayed it gives other bits")

    def _step(self, token: int, check: Callable[[], None]) -> Callable[[Tracer], Tensor]:
        def step(tracer: Tracer) -> Tensor:
            places = self._places, self._before
            memory = _Memory(tracer, *places, token, check, self._num_tokens)
            self._advances = memory.advances
            return self._places.model.through(self._hidden, self._rotations, memory)

        return step


def _tensors(state: RecurrentState) -> list[Tensor]:
    return [tensor for tensors in state.layers.values() for tensor in tensors]


class _Memory(StepMemory):
    """A `LayerMemory` (core.layers.memory) of a step that is captured."""

    def __init__(
        self,
        tracer: Tracer,
        places: StepPlaces,
        before: RecurrentState | None,
        token: int,
        check: Callable[[], None],
        num_tokens: int,
    ) -> None:
        """States of a step of several tokens go to `before` first, each right before it is read:
        so it is read from memory once."""
        super().__init__(places.slab, places.state, TokenIndex(token), check, num_tokens)
        self._tracer, self._end = tracer, token + num_tokens
        self._before = before

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = self._slab.rows(layer)
        self._tracer.store(keys, all_keys)
        self._tracer.store(values, all_values)
        return all_keys[: self._end], all_values[: self._end]

    def advance(self, layer: int, advance: Advance) -> Tensor:
        if self._before is not None and layer not in {other for other, _ in self.advances}:
            for own, to in zip(self.state(layer), self._before.layers[layer], strict=True):
                self._tracer.copy(own, to, soon=False)
        return super().advance(layer, advance)

    def check_cancelled(self) -> None:
        super().check_cancelled()
        self._tracer.part()
