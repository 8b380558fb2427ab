"""What the layers see of the cache during one forward: rows of the slab, and states in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.slab import KVSlab
from core.cache.state import RecurrentState
from core.layers.memory import Advance, LayerState


class RunMemory:
    """A `LayerMemory` of the tokens from `start` on. Rows go into the slab at once and count for
    nothing until the run is added to the tree; states are moved on beside those of before."""

    is_step = False

    def __init__(
        self,
        slab: KVSlab,
        state: RecurrentState,
        start: TokenIndex,
        check: Callable[[], None],
        runs: tuple[int, ...],
        kept: Sequence[bool] = (),
    ) -> None:
        """`kept`: whose states are wanted, the last run's apart; the others are moved on."""
        self.runs = runs
        self._slab = slab
        self._start = start
        # All at once and before the activations: laid between them, one layer after the other, they
        # would split the holes into which the next layer's activations fit.
        self._states = [state, state.room()]
        for wanted in kept:
            self._states.append(state.room() if wanted else self._states[-1])
        self._asked: set[int] = set()
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self._slab.write(layer, self._start.value, keys, values)

    def state(self, layer: int, run: int = 0) -> LayerState:
        """A copy: what was before may be a checkpoint's, and serves again if this run fails."""
        self._asked.add(layer)
        before, after = (each.layers[layer] for each in self._states[run : run + 2])
        if before is not after:
            for own, given in zip(after, before, strict=True):
                own.copy_(given)
        return after

    def advance(self, layer: int, advance: Advance) -> Tensor:
        raise AssertionError("a prompt is no step")

    def check_cancelled(self) -> None:
        self._check()

    def new_states(self) -> list[RecurrentState]:
        """Those after each run; every recurrent layer must have asked for its own. Of a run whose
        state was not wanted it is a later one's."""
        assert self._asked == self._states[0].layers.keys()
        return self._states[1:]


class StepMemory:
    """A `LayerMemory` of a step, `token` being its first: nobody else has its states."""

    is_step = True

    def __init__(
        self,
        slab: KVSlab,
        state: RecurrentState,
        token: TokenIndex,
        check: Callable[[], None],
        num_tokens: int = 1,
    ) -> None:
        """`state` is updated in place; `advances` are the calls that did so, each with its
        layer, and `kv_layers` those that wrote rows."""
        self.runs = (1,) * num_tokens
        self.kv_layers: list[int] = []
        self.advances: list[tuple[int, Advance]] = []
        self._slab, self._state, self._token = slab, state, token
        self._check = check

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.kv_layers.append(layer)
        return self._slab.write(layer, self._token.value, keys, values)

    def state(self, layer: int, run: int = 0) -> LayerState:
        return self._state.layers[layer]

    def advance(self, layer: int, advance: Advance) -> Tensor:
        self.advances.append((layer, advance))
        return advance(self.state(layer), len(self.runs))

    def check_cancelled(self) -> None:
        self._check()
