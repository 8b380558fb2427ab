"""Steps that are captured when the first is computed, and replayed from then on.

A trace knows places in memory. So it has states of its own, which take over those of every
reply, and belongs to one slab, whose rows never move. For each number of tokens there is one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.computed import Advances, advance
from core.engine.passes.run_memory import StepMemory
from core.layers.memory import Advance
from core.layers.rope import Rotations
from core.models.model import Model
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer

# To capture a step takes as long as so many steps more; each step of several tokens earns so many
# seconds for it. What Python takes beside a large model's steps is not worth that at once.
MORE_STEPS, EARNED_S = 3, 0.25

_LOG = logging.getLogger(__name__)


class CapturedSteps:
    """What one model computes for a step over one slab. For one reply at a time.

    Holds one set of states and what steps compute in between, as long as it is there.
    """

    def __init__(self, model: Model, slab: KVSlab, capture: Capture) -> None:
        self.model, self.slab, self.capture = model, slab, capture
        self.state = RecurrentState.zeros(model.layer_specs, model.device).copy()
        self.replies = 0
        self._widths: dict[int, _Width] = {}
        self._uses: Counter[int] = Counter()
        self._step_s = 0.0  # of one token
        # Before the last step of several tokens.
        self.before: RecurrentState | None = None
        # The last step: its trace, or what it did to the states if it was not captured.
        self._last: _Width | None = None
        self._advances: Advances = ()

    @torch.inference_mode()
    def begin(self, state: RecurrentState) -> CapturedReply:
        """A reply begins behind `state`, which stays as it is."""
        self.state.copy_from(state)
        self.replies += 1
        return CapturedReply(self, self.replies)

    @torch.inference_mode()
    def forward(
        self, embeddings: Tensor, positions: Tensor, token: int, check: Callable[[], None]
    ) -> Tensor:
        """As `Model.forward` of token number `token` and those behind it; the next call with as
        many tokens writes there again."""
        num_tokens = embeddings.shape[0]
        self.slab.reserve(token + num_tokens)
        if num_tokens > 1 and self.before is None:
            self.before = self.state.room()
        began = time.perf_counter()
        self._last = self._widths.get(num_tokens)
        if self._last is None:
            return self._first(embeddings, positions, token, check)
        self._last.fill(embeddings, self.model.rotations(positions, (1,) * num_tokens))
        self._last.replay(token, check)
        if num_tokens == 1:
            self._step_s = time.perf_counter() - began
        return self._last.result

    def _first(
        self, embeddings: Tensor, positions: Tensor, token: int, check: Callable[[], None]
    ) -> Tensor:
        """A step of as many tokens as none that was captured."""
        num_tokens = embeddings.shape[0]
        self._uses[num_tokens] += 1
        if num_tokens > 1 and self._uses[num_tokens] * EARNED_S < MORE_STEPS * self._step_s:
            assert self.before is not None
            self.before.copy_from(self.state)
            memory = StepMemory(self.slab, self.state, TokenIndex(token), check, num_tokens)
            self._advances = memory.advances
            return self.model.forward(embeddings, positions, memory)
        width = _Width(self, num_tokens)
        width.fill(embeddings, self.model.rotations(positions, (1,) * num_tokens))
        width.note(token, check)
        self._widths[num_tokens] = self._last = width
        return width.result

    @torch.inference_mode()
    def keep(self, count: int) -> None:
        """Of the tokens of the last step, which were several, only the first `count` happened."""
        if self._last is not None:
            self._last.keep(count)
        elif self.before is not None:
            self.state.copy_from(self.before)
            advance(self.state, self._advances, count)

    @property
    def num_traces(self) -> int:
        return len(self._widths)


class CapturedReply:
    """The steps of one reply, as `ComputedSteps` has them."""

    def __init__(self, steps: CapturedSteps, number: int) -> None:
        self._steps, self._number = steps, number

    @property
    def state(self) -> RecurrentState:
        """After the last step; the next one updates it."""
        return self._own.state

    def forward(
        self, embeddings: Tensor, positions: Tensor, token: TokenIndex, check: Callable[[], None]
    ) -> Tensor:
        """As `CapturedSteps`. Raises NotCapturableError at the first step of so many tokens, which
        then did not happen."""
        return self._own.forward(embeddings, positions, token.value, check)

    def keep(self, count: int) -> None:
        """As `CapturedSteps`."""
        self._own.keep(count)

    @property
    def _own(self) -> CapturedSteps:
        if self._number != self._steps.replies:
            raise RuntimeError("another reply has begun")
        return self._steps


class _Width:
    """Steps of so many tokens: where what goes in lies, and the trace."""

    def __init__(self, steps: CapturedSteps, num_tokens: int) -> None:
        model = steps.model
        self._steps, self._num_tokens = steps, num_tokens
        self._hidden = torch.empty(
            num_tokens, model.hidden_size, dtype=model.dtype, device=model.device
        )
        positions = torch.zeros(3, num_tokens, dtype=torch.int64, device=model.device)
        self._rotations = model.rotations(positions, (1,) * num_tokens)
        self.result = self._hidden
        self._trace: Trace
        self._advances: list[tuple[int, Advance]] = []
        self._shorter: dict[int, Trace] = {}

    def fill(self, embeddings: Tensor, rotations: Rotations) -> None:
        """What the next step is about."""
        self._hidden.copy_(embeddings)
        for name, rotation in rotations.items():
            for own, given in zip(self._rotations[name], rotation, strict=True):
                own.copy_(given)

    def replay(self, token: int, check: Callable[[], None]) -> None:
        self._trace.replay(token, check)

    def note(self, token: int, check: Callable[[], None]) -> None:
        """Compute the step and keep it. Raises NotCapturableError, with the states of before."""
        state = self._steps.state
        before = state.copy()
        try:
            self._trace, self.result = self._steps.capture(token, self._step(token, check))
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
            state, before = self._steps.state, self._steps.before
            assert before is not None
            for layer, advances in groupby(self._advances, itemgetter(0)):
                for own, given in zip(state.layers[layer], before.layers[layer], strict=True):
                    tracer.copy(given, own, soon=True)
                advance(state, advances, count)
            return self._hidden

        self._shorter[count], _ = self._steps.capture(0, step)

    def _validate(self, before: RecurrentState, token: int, check: Callable[[], None]) -> None:
        """Compute the next token's step over another row, and replay it: result, states and rows
        must have the same bits. Then replay the first token's again: nothing of it stays.

        What goes wrong in a trace shows in no error: a place that something else uses as well,
        a number that was taken for a constant, such as which experts the first row went to.
        """
        slab, state = self._steps.slab, self._steps.state
        last = slab.capacity - self._num_tokens
        first, later = self.result.clone(), min(token + 1, last)
        given = self._hidden.clone()
        self._hidden.copy_(given.roll(1, dims=1))
        after = state.copy()
        memory = StepMemory(slab, after, TokenIndex(later), check, self._num_tokens)
        computed = self._steps.model.through(self._hidden, self._rotations, memory)
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
            steps = self._steps
            places = steps.slab, steps.state, token, check, self._num_tokens
            memory = _Memory(tracer, steps.before, *places)
            self._advances = memory.advances
            return steps.model.through(self._hidden, self._rotations, memory)

        return step


def _tensors(state: RecurrentState) -> list[Tensor]:
    return [tensor for tensors in state.layers.values() for tensor in tensors]


class _Memory(StepMemory):
    """A `LayerMemory` (core.layers.memory) of a step that is captured."""

    def __init__(
        self,
        tracer: Tracer,
        before: RecurrentState | None,
        slab: KVSlab,
        state: RecurrentState,
        token: int,
        check: Callable[[], None],
        num_tokens: int,
    ) -> None:
        """States of a step of several tokens go to `before` first, each right before it is read:
        so it is read from memory once."""
        super().__init__(slab, state, TokenIndex(token), check, num_tokens)
        self._tracer, self._end = tracer, token + num_tokens
        self._before = before if num_tokens > 1 else None

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


class StepCapture:
    """Has the captured steps of a loaded model, if its kernels can capture them.

    They stay, with their slab, until those over another slab are asked for.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._steps: CapturedSteps | None = None

    def step(self, model: Model, slab: KVSlab) -> CapturedSteps | None:
        """Those over `slab`, perhaps yet to be captured; None where steps can't be."""
        if self._capture is None:
            return None
        if self._steps is None or self._steps.slab is not slab or self._steps.model is not model:
            self._steps = None  # its memory first
            self._steps = CapturedSteps(model, slab, self._capture)
        return self._steps

    def beside(self) -> StepCapture:
        """Another, for a slab that is not to outlive a request."""
        return StepCapture(self._capture)

    def give_up(self, reason: NotCapturableError) -> None:
        """Steps are computed one by one from now on."""
        _LOG.info("Steps are not captured: %s", reason)
        self._capture = self._steps = None
