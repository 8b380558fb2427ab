"""Steps that are computed one by one, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.engine.passes.run_memory import StepMemory
from core.layers.memory import Advance
from core.models.decoder import Decoder

Advances = Iterable[tuple[int, Advance]]
"""How a step updated the states, in its order: each with its layer."""


class ComputedSteps:
    """The steps of one reply, which begins behind `state`; that stays as it is."""

    def __init__(self, model: Decoder, slab: KVSlab, state: RecurrentState) -> None:
        self._model, self._slab = model, slab
        self._state = state.copy()
        # Before the last step of several tokens.
        self._before = self._state
        self._advances: Advances = ()

    def forward(
        self, embeddings: Tensor, positions: Tensor, token: TokenIndex, check: Callable[[], None]
    ) -> Tensor:
        """As `Model.forward` of token number `token` and those behind it."""
        num_tokens = embeddings.shape[0]
        if num_tokens > 1:
            self._before = self._state.copy()
        memory = StepMemory(self._slab, self._state, token, check, num_tokens)
        self._advances = memory.advances
        return self._model.forward(embeddings, positions, memory)

    def keep(self, count: int) -> None:
        """Of the tokens of the last step only the first `count` happened."""
        self._state.copy_from(self._before)
        advance(self._state, self._advances, count)


def advance(state: RecurrentState, advances: Advances, count: int) -> None:
    """Update `state` from before a step over its first `count` tokens: by the calls that updated it
    then, so to the bits that it had."""
    for layer, update in advances:
        update(state.layers[layer], count)
