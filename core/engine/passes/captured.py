"""One-token steps that are captured when the first is computed, and replayed from then on.

A trace knows places in memory. So it has states of its own, which take over those of every
reply, and belongs to one slab, whose rows never move.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.run_memory import StepMemory
from core.layers.memory import LayerState
from core.models.model import Model
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer

_LOG = logging.getLogger(__name__)


class CapturedStep:
    """What one model computes for one token over one slab. For one reply at a time.

    Holds one set of states and what a step computes in between, as long as it is there.
    """

    def __init__(self, model: Model, slab: KVSlab, capture: Capture) -> None:
        self.model, self.slab = model, slab
        self._capture = capture
        device = model.device
        self._hidden = torch.empty(1, model.hidden_size, dtype=model.dtype, device=device)
        self._rotations = model.rotations(torch.zeros(3, 1, dtype=torch.int64, device=device))
        self._state = RecurrentState.zeros(model.layer_specs, device).copy()
        self._trace: Trace | None = None
        self._result = self._hidden
        self._replies = 0
        self._begun: RecurrentState | None = None  # until the reply's first token

    @torch.inference_mode()
    def begin(self, state: RecurrentState) -> int:
        """A reply begins behind `state`, which stays as it is; returns the reply's number."""
        self._state.copy_from(state)
        self._begun = state
        self._replies += 1
        return self._replies

    @torch.inference_mode()
    def forward(
        self,
        reply: int,
        embedding: Tensor,
        positions: Tensor,
        token: int,
        check: Callable[[], None],
    ) -> Tensor:
        """As `Model.forward` of token number `token`; the next call writes there again.

        Raises NotCapturableError at the first call, and is of no use then.
        """
        if reply != self._replies:
            raise RuntimeError("another reply has begun")
        self.slab.reserve(token + 1)
        self._hidden.copy_(embedding)
        for name, rotation in self.model.rotations(positions).items():
            for own, given in zip(self._rotations[name], rotation, strict=True):
                own.copy_(given)
        begun, self._begun = self._begun, None
        if self._trace is None:
            assert begun is not None, "a step that can't be captured was asked for again"
            trace, self._result = self._capture(token, self._step(token, check))
            self._validate(trace, begun, token, check)
            self._trace = trace
        else:
            self._trace.replay(token, check)
        return self._result

    def _validate(
        self, trace: Trace, begun: RecurrentState, token: int, check: Callable[[], None]
    ) -> None:
        """Compute the next token's step over another row, and replay it: result, states and rows
        must have the same bits. Then replay the first token's again: nothing of it stays.

        What goes wrong in a trace shows in no error: a place that something else uses as well,
        a number that was taken for a constant, such as which experts the first row went to.
        """
        first, later = self._result.clone(), min(token + 1, self.slab.capacity - 1)
        row = self._hidden.clone()
        self._hidden.copy_(row.roll(1, dims=1))
        memory = StepMemory(self.slab, self._state, TokenIndex(later), check)
        computed = self.model.through(self._hidden, self._rotations, memory)
        rows = [each for pair in self.slab.view(later, later + 1).layers.values() for each in pair]
        expected = [computed, *_tensors(memory.after), *(each.clone() for each in rows)]
        for each in rows:
            each.zero_()
        trace.replay(later, check)
        alike = all(map(torch.equal, (self._result, *_tensors(self._state), *rows), expected))
        self._state.copy_from(begun)
        self._hidden.copy_(row)
        trace.replay(token, check)
        if not (alike and torch.equal(self._result, first)):
            raise NotCapturableError("replayed it gives other bits")

    def _step(self, token: int, check: Callable[[], None]) -> Callable[[Tracer], Tensor]:
        def step(tracer: Tracer) -> Tensor:
            memory = _Memory(tracer, self.slab, self._state, token, check)
            return self.model.through(self._hidden, self._rotations, memory)

        return step


def _tensors(state: RecurrentState) -> list[Tensor]:
    return [tensor for tensors in state.layers.values() for tensor in tensors]


class _Memory:
    """A `LayerMemory` (core.layers.memory) of a step that is captured."""

    is_step, runs = True, (1,)

    def __init__(
        self,
        tracer: Tracer,
        slab: KVSlab,
        state: RecurrentState,
        token: int,
        check: Callable[[], None],
    ) -> None:
        self._recorder, self._slab, self._state, self._token = tracer, slab, state, token
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = self._slab.rows(layer)
        self._recorder.store(keys, all_keys)
        self._recorder.store(values, all_values)
        return all_keys[: self._token + 1], all_values[: self._token + 1]

    def state(self, layer: int, run: int = 0) -> LayerState:
        return self._state.layers[layer]

    def check_cancelled(self) -> None:
        self._check()
        self._recorder.part()


class StepCapture:
    """Has the captured step of a loaded model, if its kernels can capture it.

    The step stays, with its slab, until one over another slab is asked for.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._step: CapturedStep | None = None

    def step(self, model: Model, slab: KVSlab) -> CapturedStep | None:
        """The step over `slab`, perhaps yet to be captured; None where steps can't be."""
        if self._capture is None:
            return None
        if self._step is None or self._step.slab is not slab or self._step.model is not model:
            self._step = None  # its memory first
            self._step = CapturedStep(model, slab, self._capture)
        return self._step

    def beside(self) -> StepCapture:
        """Another, for a slab that is not to outlive a request."""
        return StepCapture(self._capture)

    def give_up(self, reason: NotCapturableError) -> None:
        """Steps are computed one by one from now on."""
        _LOG.info("Steps are not captured: %s", reason)
        self._capture = self._step = None
