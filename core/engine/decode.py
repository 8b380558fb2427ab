"""One-token steps behind a prompt. What they leave in the slab and in the state is never reused."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from core.api.prompt import Cut
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.run_memory import StepMemory
from core.engine.step_threads import StepThreads
from core.models.model import Model


class Decode:
    """Feeds sampled ids from `start` on; a sampled placeholder id is text like any other."""

    def __init__(
        self,
        model: Model,
        slab: KVSlab,
        state: RecurrentState,
        start: Cut,
        check: Callable[[], None],
        threads: StepThreads,
    ) -> None:
        self._model = model
        self._memory = StepMemory(slab, state, start.token, check)
        self._next = start
        self._check = check
        self._threads = threads
        threads.restart()

    def step(self, token_id: int) -> Tensor:
        """Feed one id; returns the float32 logits [vocab] for the next."""
        with self._threads.step(self._next.token.value + 1, self._check):
            return self._compute(token_id)

    def _compute(self, token_id: int) -> Tensor:
        device = self._model.device
        embedding = self._model.embed(torch.tensor([token_id], device=device))
        position = self._next.position.value
        positions = torch.tensor([[position]] * 3, device=device)
        hidden = self._model.forward(embedding, positions, self._memory)
        self._next = Cut(self._next.token + 1, self._next.position + 1)
        self._memory.token = self._next.token
        return self._model.logits(hidden)[0]
