"""The cache as layers see it during one forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.kv_buffer import KVBuffer
from core.cache.state import RecurrentState
from core.layers.memory import Advance, LayerMemory, LayerState
from kernels.common.trace import Tracer

Advances = Iterable[tuple[int, Advance]]
"""The calls by which a step updated the states, in order, each with its layer."""


class RunMemory(LayerMemory):
    """For prompt tokens from `start` on; advances copies of the states."""

    def __init__(
        self,
        kv_buffer: KVBuffer,
        state: RecurrentState,
        start: TokenIndex,
        check: Callable[[], None],
        runs: tuple[int, ...],
        kept: Sequence[bool] = (),
    ) -> None:
        """`kept` says for each run but the last whether its end state is wanted."""
        super().__init__(runs, check, is_step=False)
        self._kv_buffer, self._start = kv_buffer, start
        # Allocated together, before the activations: between them, layer after layer, states would
        # split the holes into which the next layer's activations fit.
        self._states = [state, state.room()]
        for wanted in kept:
            self._states.append(state.room() if wanted else self._states[-1])
        self._asked: set[int] = set()

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        return self._kv_buffer.write(layer, self._start.value, *new)

    def state(self, layer: int, run: int = 0) -> LayerState:
        """A copy, since the state before may be a checkpoint's."""
        self._asked.add(layer)
        before, after = (each.layers[layer] for each in self._states[run : run + 2])
        if before is not after:
            for own, given in zip(after, before, strict=True):
                own.copy_(given)
        return after

    def new_states(self) -> list[RecurrentState]:
        assert self._asked == self._states[0].layers.keys(), "every recurrent layer took part"
        return self._states[1:]


class StepMemory(LayerMemory):
    """Updates `state` in place; notes `advances` and the layers that wrote rows."""

    def __init__(
        self,
        kv_buffer: KVBuffer,
        state: RecurrentState,
        token: TokenIndex,
        check: Callable[[], None],
        num_tokens: int = 1,
    ) -> None:
        super().__init__((1,) * num_tokens, check, is_step=True)
        self.kv_layers: list[int] = []
        self.advances: list[tuple[int, Advance]] = []
        self._kv_buffer, self._state, self._token = kv_buffer, state, token

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        self.kv_layers.append(layer)
        return self._kv_buffer.write(layer, self._token.value, *new)

    def state(self, layer: int, run: int = 0) -> LayerState:
        return self._state.layers[layer]

    def advance(self, layer: int, advance: Advance) -> Tensor:
        self.advances.append((layer, advance))
        return advance(self.state(layer), len(self.runs))


class TracedMemory(StepMemory):
    """In a captured step of several tokens each state is copied to `before` right before it is
    used, so that it is read from memory once."""

    def __init__(
        self,
        tracer: Tracer,
        kv_buffer: KVBuffer,
        state: RecurrentState,
        before: RecurrentState | None,
        token: TokenIndex,
        check: Callable[[], None],
        num_tokens: int,
    ) -> None:
        super().__init__(kv_buffer, state, token, check, num_tokens)
        self._tracer, self._before = tracer, before
        self._end = token.value + num_tokens

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        held = self._kv_buffer.rows(layer)
        base = self._kv_buffer.base(layer) if layer in self._kv_buffer.windowed else None
        for given, rows in zip(new, held, strict=True):
            self._tracer.store(given, rows, base)
        end = self._end - (base or 0)
        return tuple(rows[:end] for rows in held)

    def advance(self, layer: int, advance: Advance) -> Tensor:
        if self._before is not None and layer not in {other for other, _ in self.advances}:
            for own, to in zip(self.state(layer), self._before.layers[layer], strict=True):
                self._tracer.copy(own, to, soon=False)
        return super().advance(layer, advance)

    def check_cancelled(self) -> None:
        super().check_cancelled()
        self._tracer.part()


def replay_advances(state: RecurrentState, advances: Advances, count: int) -> None:
    """Advance `state` over the first `count` tokens of a step by its own calls, to the same
    bits."""
    for layer, update in advances:
        update(state.layers[layer], count)
