"""One-token steps behind a prompt. What they leave in the slab and in the state is never reused."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from core.api.prompt import Cut
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.captured import StepCapture
from core.engine.passes.run_memory import StepMemory
from core.models.model import Model
from kernels.common.trace import NotCapturableError


class Decode:
    """Feeds sampled ids from `start` on; a sampled placeholder id is text like any other.

    One reply at a time: where steps are captured, another over the same slab ends this one.
    """

    def __init__(
        self,
        model: Model,
        slab: KVSlab,
        state: RecurrentState,
        start: Cut,
        check: Callable[[], None],
        steps: StepCapture,
    ) -> None:
        """`state` stays as it is."""
        self._model, self._slab, self._state = model, slab, state
        self._next = start
        self._check = check
        self._steps = steps
        self._memory: StepMemory | None = None
        self._captured = steps.step(model, slab)
        self._reply = self._captured.begin(state) if self._captured is not None else 0

    def step(self, token_id: int) -> Tensor:
        """Feed one id; returns the float32 logits [vocab] for the next."""
        device = self._model.device
        embedding = self._model.embed(torch.tensor([token_id], device=device))
        position = self._next.position.value
        positions = torch.tensor([[position]] * 3, device=device)
        hidden = self._forward(embedding, positions)
        self._next = Cut(self._next.token + 1, self._next.position + 1)
        return self._model.logits(hidden)[0]

    def _forward(self, embedding: Tensor, positions: Tensor) -> Tensor:
        if self._captured is not None:
            try:
                token = self._next.token.value
                return self._captured.forward(self._reply, embedding, positions, token, self._check)
            except NotCapturableError as reason:  # of the first step: nothing was lost by trying
                self._steps.give_up(reason)
                self._captured = None
        if self._memory is None:
            self._memory = StepMemory(self._slab, self._state, self._next.token, self._check)
        self._memory.token = self._next.token
        return self._model.forward(embedding, positions, self._memory)
