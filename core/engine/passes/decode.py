"""Decode steps of one or several tokens with the same bits; rejected tokens are rolled back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core.api.prompt import Cut
from core.cache.kv_buffer import KVBuffer
from core.cache.state import RecurrentState
from core.engine.passes.captured import StepCapture
from core.models.decoder import Decoder

# The kernels of steps take this many tokens.
MOST_TOKENS = 8


class Decode:
    def __init__(
        self,
        model: Decoder,
        kv_buffer: KVBuffer,
        state: RecurrentState,
        start: Cut,
        check: Callable[[], None],
        capture: StepCapture,
        skip_rollback: bool = False,
    ) -> None:
        """`state` stays as it is. `skip_rollback` keeps rejected tokens."""
        self._model, self._kv_buffer, self._check = model, kv_buffer, check
        # Where the last step began, and the next one begins.
        self._last = self.next = start
        # The last step's rows [n, hidden_size]; the next step overwrites them.
        self.hidden = torch.empty(0)
        # Token and position of each written row.
        self.places: list[tuple[int, int]] = []
        self._skip_rollback = skip_rollback
        self._steps = capture.step(model, kv_buffer)
        self._steps.begin(state)

    @property
    def num_captured(self) -> int:
        return self._steps.num_captured

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed at most MOST_TOKENS ids; returns float32 logits [n, vocab]."""
        device = self._model.device
        embeddings = self._model.embed(torch.tensor(ids, device=device))
        first = self.next.position.value
        positions = torch.arange(first, first + len(ids), device=device).expand(3, -1)
        self.hidden = self._steps.forward(embeddings, positions, self.next.token, self._check)
        self._last, self.next = self.next, _after(self.next, len(ids))
        first_token = self._last.token.value
        self.places += [(first_token + each, first + each) for each in range(len(ids))]
        return self._model.logits(self.hidden)

    def keep(self, count: int) -> None:
        fed, self.next = self.next, _after(self._last, count)
        if self.next == fed or self._skip_rollback:
            return
        del self.places[count - (fed.token - self._last.token) :]
        self._steps.keep(count)
        self._kv_buffer.clear(self.next.token.value, fed.token.value)

    def close(self) -> None:
        first = self.next.token.value
        self._kv_buffer.clear(first, min(first + MOST_TOKENS, self._kv_buffer.capacity))


def _after(cut: Cut, num_tokens: int) -> Cut:
    return Cut(cut.token + num_tokens, cut.position + num_tokens)
