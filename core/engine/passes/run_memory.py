"""What the layers see of the cache during one forward: rows of the slab, and states in and out."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.layers.memory import LayerState


class RunMemory:
    """A `LayerMemory` of the tokens from `start` on. Rows go into the slab at once and count for
    nothing until the run is added to the tree; states are moved on beside those of before."""

    def __init__(
        self,
        slab: KVSlab,
        state: RecurrentState,
        start: TokenIndex,
        check: Callable[[], None],
    ) -> None:
        self._slab = slab
        self._before = state
        self._start = start
        # All at once and before the activations: laid between them, one layer after the other, they
        # would split the holes into which the next layer's activations fit.
        self._room = state.room()
        self._after: dict[int, LayerState] = {}
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self._slab.write(layer, self._start.value, keys, values)

    def state(self, layer: int) -> LayerState:
        """A copy: what was before may be a checkpoint's, and serves again if this run fails."""
        self._after[layer] = self._room.layers[layer]
        for own, given in zip(self._after[layer], self._before.layers[layer], strict=True):
            own.copy_(given)
        return self._after[layer]

    def check_cancelled(self) -> None:
        self._check()

    def new_state(self) -> RecurrentState:
        """The states after the forward; every recurrent layer must have asked for its own."""
        assert self._after.keys() == self._before.layers.keys()
        return RecurrentState(self._after)


class StepMemory:
    """A `LayerMemory` of one-token steps, `token` being the next: nobody else has its states."""

    def __init__(
        self, slab: KVSlab, state: RecurrentState, token: TokenIndex, check: Callable[[], None]
    ) -> None:
        """`state` is copied once."""
        self.token = token
        self._slab = slab
        self._state = state.copy()
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self._slab.write(layer, self.token.value, keys, values)

    def state(self, layer: int) -> LayerState:
        return self._state.layers[layer]

    def check_cancelled(self) -> None:
        self._check()
