"""What the cache holds by class and place, each place against its budget, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.api.stats import CacheBytes
from desktop.numbers import format_bytes
from desktop.words import context as words

ShareKind = Literal["slab", "memory", "checkpoint", "image", "moving", "disk"]
PlaceKind = Literal["device", "host", "disk"]
TITLES = words.BYTES_TITLES


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
            return words.NOTHING_KEPT if not self.used else format_bytes(self.used)
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
    slab = _share("slab", bytes_held.slab)
    host = [
        _share("memory", max(0, bytes_held.kv - bytes_held.slab)),
        _share("checkpoint", bytes_held.checkpoints),
        _share("image", bytes_held.embeddings),
        _share("moving", bytes_held.in_flight),
    ]
    found: dict[PlaceKind, ByteStore] = {}
    if bytes_held.device_budget:
        found["device"] = ByteStore("device", bytes_held.device_budget, (slab,))
    else:
        host.insert(0, slab)
    found["host"] = ByteStore("host", bytes_held.host_budget, tuple(host))
    disk = _share("disk", bytes_held.disk)
    found["disk"] = ByteStore("disk", bytes_held.disk_budget, (disk,))
    return found


def _share(kind: ShareKind, size: int) -> Share:
    return Share(kind, words.SHARE_NAMES[kind], size)
