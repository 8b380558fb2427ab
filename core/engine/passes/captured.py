"""Decode steps, captured on first use and then replayed: a trace per number of tokens."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.kv_buffer import KVBuffer
from core.cache.state import RecurrentState
from core.engine.passes.memory import Advances, StepMemory, TracedMemory, replay_advances
from core.engine.passes.mtp import HeadSteps
from core.layers.memory import Advance
from core.layers.rope import Rotations, copy_rotations
from core.models.decoder import Decoder
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer

# Capturing takes as long as this many more steps; each step of several tokens earns this many
# seconds for it. For a large model, Python's share of a step isn't worth capturing at once.
MORE_STEPS, EARNED_S = 3, 0.25

_LOG = logging.getLogger(__name__)


class StepCapture:
    """The steps of a model and its MTP head, over one KV buffer at a time."""

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._steps: Steps | None = None
        self._head: HeadSteps | None = None

    def head(self, model: Decoder, kv_buffer: KVBuffer) -> HeadSteps:
        if self._capture is None:
            return HeadSteps(model, kv_buffer, None)
        self.step(model, kv_buffer)
        if self._head is None:
            self._head = HeadSteps(model, kv_buffer, self._capture)
        return self._head

    def step(self, model: Decoder, kv_buffer: KVBuffer) -> Steps:
        if self._capture is None:
            return Steps(model, kv_buffer, None, self._give_up)
        if (
            self._steps is None
            or self._steps.kv_buffer is not kv_buffer
            or self._steps.model is not model
        ):
            self._steps = self._head = None  # frees their memory first
            self._steps = Steps(model, kv_buffer, self._capture, self._give_up)
        return self._steps

    def separate(self) -> StepCapture:
        return StepCapture(self._capture)

    def _give_up(self, reason: NotCapturableError) -> None:
        _LOG.info("Steps are not captured: %s", reason)
        self._capture = self._steps = self._head = None


class Steps:
    """One reply at a time; `state` is the last step's. A step that can't be captured is computed,
    and `give_up` called."""

    def __init__(
        self,
        model: Decoder,
        kv_buffer: KVBuffer,
        capture: Capture | None,
        give_up: Callable[[NotCapturableError], None],
    ) -> None:
        self.model, self.kv_buffer = model, kv_buffer
        self._capture, self._give_up = capture, give_up
        self.state = RecurrentState.zeros(model.layer_specs, model.device).copy()
        self._traces: dict[int, StepTrace] = {}
        self._uses: Counter[int] = Counter()
        self._step_s = 0.0  # of one token
        # The last step: its trace, or how it advanced the states if it was computed.
        self._last: StepTrace | None = None
        self._advances: Advances = ()

    @cached_property
    def _before(self) -> RecurrentState:
        return self.state.room()

    @torch.inference_mode()
    def begin(self, state: RecurrentState) -> None:
        self.state.copy_from(state)

    @torch.inference_mode()
    def forward(
        self, embeddings: Tensor, positions: Tensor, token: TokenIndex, check: Callable[[], None]
    ) -> Tensor:
        """The next call overwrites the result."""
        num_tokens = embeddings.shape[0]
        self.kv_buffer.advance(token.value, token.value + num_tokens)
        began = time.perf_counter()
        self._last = self._traces.get(num_tokens)
        if self._last is None:
            return self._first(embeddings, positions, token, check)
        self._last.fill(embeddings, self.model.rotations(positions, (1,) * num_tokens))
        self._last.replay(token, check)
        if num_tokens == 1:
            self._step_s = time.perf_counter() - began
        return self._last.result

    def _first(
        self, embeddings: Tensor, positions: Tensor, token: TokenIndex, check: Callable[[], None]
    ) -> Tensor:
        num_tokens = embeddings.shape[0]
        self._uses[num_tokens] += 1
        pays = num_tokens == 1 or self._uses[num_tokens] * EARNED_S >= MORE_STEPS * self._step_s
        if self._capture is not None and pays:
            before = self._before if num_tokens > 1 else None
            parts = self.model, self.kv_buffer, self._capture, self.state, before, num_tokens
            trace = StepTrace(*parts)
            trace.fill(embeddings, self.model.rotations(positions, (1,) * num_tokens))
            try:
                trace.record(token, check)
            except NotCapturableError as reason:
                self._capture = None
                self._traces.clear()
                self._give_up(reason)
            else:
                self._traces[num_tokens] = self._last = trace
                return trace.result
        if num_tokens > 1:
            self._before.copy_from(self.state)
        memory = StepMemory(self.kv_buffer, self.state, token, check, num_tokens)
        self._advances = memory.advances
        return self.model.forward(embeddings, positions, memory)

    @torch.inference_mode()
    def keep(self, count: int) -> None:
        if self._last is not None:
            self._last.keep(count)
        else:
            self.state.copy_from(self._before)
            replay_advances(self.state, self._advances, count)

    @property
    def num_traces(self) -> int:
        return len(self._traces)

    @property
    def num_captured(self) -> int:
        return sum(1 + trace.num_shorter for trace in self._traces.values())


class StepTrace:
    def __init__(
        self,
        model: Decoder,
        kv_buffer: KVBuffer,
        capture: Capture,
        state: RecurrentState,
        before: RecurrentState | None,
        num_tokens: int,
    ) -> None:
        self._model, self._kv_buffer, self._capture = model, kv_buffer, capture
        self._state, self._before, self._num_tokens = state, before, num_tokens
        # Allocated before the capture: a graph reuses its own memory.
        self._hidden = torch.empty(
            num_tokens, model.embedding_width, dtype=model.dtype, device=model.device
        )
        positions = torch.zeros(3, num_tokens, dtype=torch.int64, device=model.device)
        self._rotations = model.rotations(positions, (1,) * num_tokens)
        self.result = self._hidden
        self._trace: Trace
        self._advances: list[tuple[int, Advance]] = []
        self._shorter: dict[int, Trace] = {}

    @property
    def num_shorter(self) -> int:
        return len(self._shorter)

    def fill(self, embeddings: Tensor, rotations: Rotations) -> None:
        self._hidden.copy_(embeddings)
        copy_rotations(rotations, self._rotations)

    def replay(self, token: TokenIndex, check: Callable[[], None]) -> None:
        self._trace.replay(token.value, check, self._kv_buffer.base())

    def record(self, token: TokenIndex, check: Callable[[], None]) -> None:
        """Raises NotCapturableError, with the states restored."""

        def step(tracer: Tracer) -> Tensor:
            memory = TracedMemory(
                tracer, self._kv_buffer, self._state, self._before, token, check, self._num_tokens
            )
            self._advances = memory.advances
            return self._model.through(self._hidden, self._rotations, memory)

        before = self._state.copy()
        try:
            self._trace, self.result = self._capture(token.value, step)
            self._validate(before, token, check)
        except BaseException:
            self._state.copy_from(before)
            raise

    def keep(self, count: int) -> None:
        if count in self._shorter:
            self._shorter[count].replay(0, lambda: None)
            return

        def step(tracer: Tracer) -> Tensor:
            assert self._before is not None
            for layer, advances in groupby(self._advances, itemgetter(0)):
                pairs = zip(self._state.layers[layer], self._before.layers[layer], strict=True)
                for own, given in pairs:
                    tracer.copy(given, own, soon=True)
                replay_advances(self._state, advances, count)
            return self._hidden

        self._shorter[count], _ = self._capture(0, step)

    def _validate(
        self, before: RecurrentState, token: TokenIndex, check: Callable[[], None]
    ) -> None:
        """Replay the next token's step from another row, which must have a computed step's bits,
        then the first step again: a faulty trace, which shares memory or holds a number that wasn't
        constant, raises no error."""
        state, last = self._state, self._kv_buffer.capacity - self._num_tokens
        first, later = self.result.clone(), min(token.value + 1, last)
        given = self._hidden.clone()
        self._hidden.copy_(given.roll(1, dims=1))
        after = state.copy()
        memory = StepMemory(self._kv_buffer, after, TokenIndex(later), check, self._num_tokens)
        computed = self._model.through(self._hidden, self._rotations, memory)
        # Without the rows of an MTP head, which no step writes.
        rows = [
            each
            for layer in memory.kv_layers
            for each in self._kv_buffer.rows_of(layer, later, later + self._num_tokens)
        ]
        expected = [computed, *after.tensors, *(each.clone() for each in rows)]
        for each in rows:
            each.zero_()
        self._trace.replay(later, check, self._kv_buffer.base())
        alike = all(map(torch.equal, (self.result, *state.tensors, *rows), expected))
        for each in rows:
            each.zero_()
        state.copy_from(before)
        self._hidden.copy_(given)
        self.replay(token, check)
        if not (alike and torch.equal(self.result, first)):
            raise NotCapturableError("replayed it gives other bits")
