"""What the cache holds by class and place, each place against its budget, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.api.events import CacheBytes
from desktop.words.numbers import format_bytes

ShareKind = Literal["slab", "memory", "checkpoint", "image", "moving", "disk"]
PlaceKind = Literal["device", "host", "disk"]
TITLES: dict[PlaceKind, str] = {"device": "Graphics memory", "host": "Memory", "disk": "Disk"}


@dataclass(frozen=True, slots=True)
class Share:
    """One class of bytes; `kind` is how it is filled."""

    kind: ShareKind
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ByteStore:
    """A place with its budget in bytes (0: there is none) and what lies in it."""

    place: PlaceKind
    budget: int
    shares: tuple[Share, ...]

    @property
    def used(self) -> int:
        return sum(share.size for share in self.shares)

    def words(self) -> str:
        """Use and budget: 1.2 GB of 6.2 GB."""
        if not self.budget:
            return "nothing is kept here" if not self.used else format_bytes(self.used)
        return f"{format_bytes(self.used)} of {format_bytes(self.budget)}"

    def spoken(self) -> str:
        """All of it for a screen reader."""
        shares = ", ".join(f"{share.name.lower()} {format_bytes(share.size)}" for share in self.all)
        return f"{TITLES[self.place]}: {self.words()}{shares and f': {shares}'}."

    @property
    def all(self) -> tuple[Share, ...]:
        """The shares that are not empty."""
        return tuple(share for share in self.shares if share.size)


def stores(bytes_held: CacheBytes) -> dict[PlaceKind, ByteStore]:
    """The places; graphics memory only where the model's device has memory of its own."""
    slab = Share("slab", "Context in use now", bytes_held.slab)
    host = [
        Share("memory", "Contexts kept", max(0, bytes_held.kv - bytes_held.slab)),
        Share("checkpoint", "Checkpoints", bytes_held.checkpoints),
        Share("image", "Pictures, encoded", bytes_held.embeddings),
        Share("moving", "On its way", bytes_held.in_flight),
    ]
    found: dict[PlaceKind, ByteStore] = {}
    if bytes_held.device_budget:
        found["device"] = ByteStore("device", bytes_held.device_budget, (slab,))
    else:
        host.insert(0, slab)
    found["host"] = ByteStore("host", bytes_held.host_budget, tuple(host))
    disk = Share("disk", "Contexts and pictures", bytes_held.disk)
    found["disk"] = ByteStore("disk", bytes_held.disk_budget, (disk,))
    return found
