"""How fast this computer reads prompts, encodes pictures and fetches from disk, as measured.

Decisions that depend on speed take a `Throughput` as an argument: the app lets it learn from every
request, tests and replay give their own.
"""

from __future__ import annotations

from dataclasses import dataclass

# The share of the newest measurement: speeds follow a machine that gets busy within a few requests.
NEWEST = 0.3

# Seconds per byte of a slow disk, until this one was measured: only eviction goes by it.
UNMEASURED_DISK = 1e-8


@dataclass
class Throughput:
    """Seconds per prompt token, per encoded picture token, and per byte from disk.

    Before anything is measured only ratios matter: a picture's token counts twice, once for the
    tower and once for the prefill, and what is on disk is cheap to have again.
    """

    prefill: float = 1e-3
    encode: float = 1e-3
    disk: float | None = None

    def note_prefill(self, tokens: int, seconds: float) -> None:
        if tokens:
            self.prefill = _mixed(self.prefill, seconds / tokens)

    def note_encode(self, tokens: int, seconds: float) -> None:
        if tokens:
            self.encode = _mixed(self.encode, seconds / tokens)

    def note_disk(self, num_bytes: int, seconds: float) -> None:
        if num_bytes:
            self.disk = _mixed(self.disk, seconds / num_bytes)

    def read_seconds(self, text_tokens: int, picture_tokens: int) -> float:
        """Seconds to read text and pictures again, the pictures encoded anew."""
        return (text_tokens + picture_tokens) * self.prefill + picture_tokens * self.encode

    def fetch_seconds(self, num_bytes: int) -> float:
        """Seconds to bring bytes back from disk."""
        return num_bytes * (UNMEASURED_DISK if self.disk is None else self.disk)


def _mixed(old: float | None, new: float) -> float:
    return new if old is None else (1 - NEWEST) * old + NEWEST * new
