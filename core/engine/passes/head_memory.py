"""What an MTP head sees of the cache: rows of the slab, without the first."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from core.cache.slab import KVSlab
from core.layers.memory import Advance, LayerState


class HeadMemory:
    """A `LayerMemory` of the head's rows from token `start` on, which is 1 at least: token 0 has
    none, for its row is made of the one before it."""

    def __init__(
        self,
        slab: KVSlab,
        start: int,
        runs: tuple[int, ...],
        check: Callable[[], None],
        *,
        is_step: bool,
    ) -> None:
        assert start >= 1
        self.runs, self.is_step = runs, is_step
        self._slab, self.start, self._check = slab, start, check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = self._slab.write(layer, self.start, keys, values)
        return all_keys[1:], all_values[1:]

    def state(self, layer: int, run: int = 0) -> LayerState:
        raise AssertionError("a head attends")

    def advance(self, layer: int, advance: Advance) -> Tensor:
        raise AssertionError("a head attends")

    def check_cancelled(self) -> None:
        self._check()
