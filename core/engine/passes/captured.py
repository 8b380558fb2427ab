"""Steps that are captured when the first is computed, and replayed from then on.

For each number of tokens there is a trace (`step_trace`), over one slab.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.computed import Advances, advance
from core.engine.passes.head_steps import HeadSteps
from core.engine.passes.run_memory import StepMemory
from core.engine.passes.step_trace import StepPlaces, StepTrace
from core.models.decoder import Decoder
from kernels.common.trace import Capture, NotCapturableError

# To capture a step takes as long as so many steps more; each step of several tokens earns so many
# seconds for it. What Python takes beside a large model's steps is not worth that at once.
MORE_STEPS, EARNED_S = 3, 0.25

_LOG = logging.getLogger(__name__)


class CapturedSteps:
    """What one model computes for a step over one slab. For one reply at a time.

    Holds two sets of states and what steps compute in between, as long as it is there.
    """

    def __init__(self, model: Decoder, slab: KVSlab, capture: Capture) -> None:
        self.model, self.slab, self._capture = model, slab, capture
        state = RecurrentState.zeros(model.layer_specs, model.device).copy()
        self._places = StepPlaces(model, slab, state)
        self.replies = 0
        self._traces: dict[int, StepTrace] = {}
        self._uses: Counter[int] = Counter()
        self._step_s = 0.0  # of one token
        # The last step: its trace, or what it did to the states if it was not captured.
        self._last: StepTrace | None = None
        self._advances: Advances = ()

    @property
    def state(self) -> RecurrentState:
        """After the last step; the next one updates it."""
        return self._places.state

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
        self, embeddings: Tensor, positions: Tensor, token: int, check: Callable[[], None]
    ) -> Tensor:
        """A step of as many tokens as none that was captured."""
        num_tokens = embeddings.shape[0]
        self._uses[num_tokens] += 1
        if num_tokens > 1 and self._uses[num_tokens] * EARNED_S < MORE_STEPS * self._step_s:
            self._places.before.copy_from(self.state)
            memory = StepMemory(self.slab, self.state, TokenIndex(token), check, num_tokens)
            self._advances = memory.advances
            return self.model.forward(embeddings, positions, memory)
        trace = StepTrace(self._places, self._capture, num_tokens)
        trace.fill(embeddings, self.model.rotations(positions, (1,) * num_tokens))
        trace.note(token, check)
        self._traces[num_tokens] = self._last = trace
        return trace.result

    @torch.inference_mode()
    def keep(self, count: int) -> None:
        """Of the tokens of the last step, which were several, only the first `count` happened."""
        if self._last is not None:
            self._last.keep(count)
        else:
            self.state.copy_from(self._places.before)
            advance(self.state, self._advances, count)

    @property
    def num_traces(self) -> int:
        return len(self._traces)

    @property
    def num_captured(self) -> int:
        """Whole steps, and what is kept of them."""
        return sum(1 + trace.num_shorter for trace in self._traces.values())


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


class StepCapture:
    """Has the captured steps of a loaded model, if its kernels can capture them.

    They stay, with their slab, until those over another slab are asked for; so do those of its MTP
    head.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._steps: CapturedSteps | None = None
        self._head: HeadSteps | None = None

    def head(self, model: Decoder, slab: KVSlab) -> HeadSteps:
        """Those of the model's MTP head over `slab`, computed where steps can't be captured."""
        if self.step(model, slab) is None:
            return HeadSteps(model, slab, None)
        if self._head is None:
            self._head = HeadSteps(model, slab, self._capture)
        return self._head

    def step(self, model: Decoder, slab: KVSlab) -> CapturedSteps | None:
        """Those over `slab`, perhaps yet to be captured; None where steps can't be."""
        if self._capture is None:
            return None
        if self._steps is None or self._steps.slab is not slab or self._steps.model is not model:
            self._steps = self._head = None  # their memory first
            self._steps = CapturedSteps(model, slab, self._capture)
        return self._steps

    @property
    def num_captured(self) -> int:
        """As of the steps."""
        return self._steps.num_captured if self._steps is not None else 0

    def beside(self) -> StepCapture:
        """Another, for a slab that is not to outlive a request."""
        return StepCapture(self._capture)

    def give_up(self, reason: NotCapturableError) -> None:
        """Steps are computed one by one from now on."""
        _LOG.info("Steps are not captured: %s", reason)
        self._capture = self._steps = self._head = None
