"""Steps behind a prompt, of a token or of a few. What they leave in the slab and in the states is
never reused.

A step of several tokens has the bits of as many steps of one, so a reply is the same however its
tokens were shared out. Those that turn out not to follow are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core.api.prompt import Cut
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.captured import StepCapture
from core.engine.passes.computed import ComputedSteps
from core.models.decoder import Decoder
from kernels.common.trace import NotCapturableError

# Of a step, as many as the kernels of steps take.
MOST_TOKENS = 8


class Decode:
    """Feeds sampled ids from `start` on; a sampled placeholder id is text like any other.

    One reply at a time: where steps are captured, another over the same slab ends this one.
    """

    def __init__(
        self,
        model: Decoder,
        slab: KVSlab,
        state: RecurrentState,
        start: Cut,
        check: Callable[[], None],
        steps: StepCapture,
        skip_rollback: bool = False,
    ) -> None:
        """`state` stays as it is. `skip_rollback` keeps what turns out wrong, to be found."""
        self._model, self._slab, self._check = model, slab, check
        # Where the last step began, and the next one begins.
        self._last = self.next = start
        # What the model made of the tokens of the last step, [n, hidden_size], until the next one.
        self.hidden = torch.empty(0)
        # Token and position of each row that was written.
        self.places: list[tuple[int, int]] = []
        self._skip_rollback = skip_rollback
        self._steps = steps
        captured = steps.step(model, slab)
        self._captured = captured.begin(state) if captured is not None else None
        self._computed = ComputedSteps(model, slab, state) if captured is None else None

    @property
    def num_captured(self) -> int:
        """How much of this model's steps is captured."""
        return self._steps.num_captured

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed MOST_TOKENS ids at most; returns the float32 logits [n, vocab] behind each."""
        device = self._model.device
        embeddings = self._model.embed(torch.tensor(ids, device=device))
        first = self.next.position.value
        positions = torch.arange(first, first + len(ids), device=device).expand(3, -1)
        self.hidden = self._forward(embeddings, positions)
        self._last, self.next = self.next, _behind(self.next, len(ids))
        first_token = self._last.token.value
        self.places += [(first_token + each, first + each) for each in range(len(ids))]
        return self._model.logits(self.hidden)

    def keep(self, count: int) -> None:
        """Of the tokens of the last step only the first `count`, one at least, happened."""
        fed, self.next = self.next, _behind(self._last, count)
        if self.next == fed or self._skip_rollback:
            return
        del self.places[count - (fed.token - self._last.token) :]
        if self._captured is not None:
            self._captured.keep(count)
        elif self._computed is not None:
            self._computed.keep(count)
        self._slab.clear(self.next.token.value, fed.token.value)

    def close(self) -> None:
        """Leave nothing behind the last token that happened, wherever a step was given up."""
        first = self.next.token.value
        self._slab.clear(first, min(first + MOST_TOKENS, self._slab.capacity))

    def _forward(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        token = self.next.token
        if self._captured is not None:
            try:
                return self._captured.forward(embeddings, positions, token, self._check)
            except NotCapturableError as reason:  # the states are those from before this step
                self._computed = ComputedSteps(self._model, self._slab, self._captured.state)
                self._steps.give_up(reason)
                self._captured = None
        assert self._computed is not None
        return self._computed.forward(embeddings, positions, token, self._check)


def _behind(cut: Cut, num_tokens: int) -> Cut:
    return Cut(cut.token + num_tokens, cut.position + num_tokens)
