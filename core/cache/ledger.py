"""Bytes held by class, and budgets. Everything is reserved before it is allocated."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class Held(enum.Enum):
    """KV_BUFFER and SIDE are on the device, the others in host memory."""

    KV_BUFFER = "KV buffer"
    SIDE = "side"
    ROWS = "rows"
    STATES = "states"
    EMBEDDINGS = "embeddings"
    IN_FLIGHT = "in flight"


ON_DEVICE = frozenset({Held.KV_BUFFER, Held.SIDE})
DROPPABLE = frozenset({Held.ROWS, Held.STATES, Held.EMBEDDINGS})


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in bytes. On a CPU the KV buffer counts as host memory."""

    host: int = sys.maxsize
    device: int = sys.maxsize


class Ledger:
    """`separate_device` if the KV buffer is on a GPU."""

    def __init__(self, separate_device: bool, limits: Limits) -> None:
        self._separate_device = separate_device
        self.limits = limits
        self._used = dict.fromkeys(Held, 0)
        self.peak_host = 0

    def used(self, held: Held) -> int:
        return self._used[held]

    def on_device(self, held: Held) -> bool:
        return self._separate_device and held in ON_DEVICE

    def room(self, held: Held) -> int:
        """Negative after a budget was lowered."""
        there = self.on_device(held)
        limit = self.limits.device if there else self.limits.host
        return limit - self._sum(there)

    def most_room(self) -> int:
        """Host bytes that could be reserved if everything droppable went."""
        return self.room(Held.ROWS) + sum(self._used[held] for held in DROPPABLE)

    def reserve(self, held: Held, num_bytes: int) -> None:
        assert 0 <= num_bytes <= max(0, self.room(held)), "room is made before anything is reserved"
        self._used[held] += num_bytes
        self.peak_host = max(self.peak_host, self._sum(on_device=False))

    def release(self, held: Held, num_bytes: int) -> None:
        self._used[held] -= num_bytes
        assert self._used[held] >= 0

    @contextmanager
    def passing(self, held: Held, num_bytes: int) -> Iterator[None]:
        self.reserve(held, num_bytes)
        try:
            yield
        finally:
            self.release(held, num_bytes)

    def _sum(self, on_device: bool) -> int:
        return sum(count for held, count in self._used.items() if self.on_device(held) == on_device)
