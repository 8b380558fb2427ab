"""What the layers see of the cache during one forward: rows of the slab, and states in and out."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.specs import LayerState
from core.cache.state import RecurrentState, own


class RunMemory:
    """Memory of the tokens from `start` on. Rows go into the slab at once and count for nothing
    until the run is added to the tree; new states are collected and replace none before."""

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
        self._after: dict[int, LayerState] = {}
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self._slab.write(layer, self._start.value, keys, values)

    def state(self, layer: int) -> LayerState:
        return self._before.layers[layer]

    def store_state(self, layer: int, state: LayerState) -> None:
        self._after[layer] = tuple(own(tensor) for tensor in state)

    def check_cancelled(self) -> None:
        self._check()

    def new_state(self) -> RecurrentState:
        """The states after the forward; every recurrent layer must have stored one."""
        assert self._after.keys() == self._before.layers.keys()
        return RecurrentState(self._after)
