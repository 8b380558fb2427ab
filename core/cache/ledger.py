"""What the cache holds in bytes, by class, and the budgets nothing may exceed.

Everything that is about to be allocated is reserved here first, so a sum over a budget can't be
written down: `reserve` asserts that there is room. Who makes room, and what goes for it, is decided
in `core.cache.eviction`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class Held(enum.Enum):
    """A class of bytes. SLAB and SIDE lie where the model computes, the others in host memory."""

    SLAB = "slab"
    SIDE = "side"
    ROWS = "rows"
    STATES = "states"
    EMBEDDINGS = "embeddings"
    IN_FLIGHT = "in flight"


ON_DEVICE = frozenset({Held.SLAB, Held.SIDE})
DROPPABLE = frozenset({Held.ROWS, Held.STATES, Held.EMBEDDINGS})


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in bytes. Without a device of its own the slab counts in host memory."""

    host: int = sys.maxsize
    device: int = sys.maxsize


class Ledger:
    """The bytes held by class under `limits`; `separate_device` where the slab lies on a GPU."""

    def __init__(self, separate_device: bool, limits: Limits | None = None) -> None:
        self._separate_device = separate_device
        self.limits = limits or Limits()
        self._used = dict.fromkeys(Held, 0)
        self.peak_host = 0

    def used(self, held: Held) -> int:
        return self._used[held]

    def on_device(self, held: Held) -> bool:
        """Whether a class lies in memory of the device's own."""
        return self._separate_device and held in ON_DEVICE

    def room(self, held: Held) -> int:
        """Bytes that can still be reserved for a class; negative after a budget was lowered."""
        there = self.on_device(held)
        limit = self.limits.device if there else self.limits.host
        return limit - self._sum(there)

    def most_room(self) -> int:
        """Bytes of host memory that could be reserved if all that can be dropped were."""
        return self.room(Held.ROWS) + sum(self._used[held] for held in DROPPABLE)

    def reserve(self, held: Held, num_bytes: int) -> None:
        """Count bytes that are about to be allocated, for which there is room."""
        assert 0 <= num_bytes <= max(0, self.room(held)), "room is made before anything is reserved"
        self._used[held] += num_bytes
        self.peak_host = max(self.peak_host, self._sum(on_device=False))

    def release(self, held: Held, num_bytes: int) -> None:
        """Bytes were freed."""
        self._used[held] -= num_bytes
        assert self._used[held] >= 0

    @contextmanager
    def passing(self, held: Held, num_bytes: int) -> Iterator[None]:
        """Bytes that are held for the length of a block only."""
        self.reserve(held, num_bytes)
        try:
            yield
        finally:
            self.release(held, num_bytes)

    def _sum(self, on_device: bool) -> int:
        return sum(count for held, count in self._used.items() if self.on_device(held) == on_device)
