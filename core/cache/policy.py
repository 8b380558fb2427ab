"""Which cuts get a checkpoint, what is evicted first, and the speeds that decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.api.prompt import CutKind, Prompt, Run

# The share of the newest measurement: speeds follow a machine that gets busy within a few requests.
NEWEST = 0.3
# Seconds per byte of a slow disk, until this one was measured: only eviction goes by it.
UNMEASURED_DISK = 1e-8
_ALWAYS = CutKind.MESSAGE_END | CutKind.CALL | CutKind.IMAGE_START | CutKind.IMAGE_END


def rounded_interval(interval: int, grid: int) -> int:
    return -(-interval // grid) * grid


def plan(prompt: Prompt, interval: int) -> tuple[Run, ...]:
    """The runs whose ends get a checkpoint: message ends, starts of tool calls, image edges, and
    grid cuts at least `interval` tokens apart."""
    return tuple(_named(prompt.runs, rounded_interval(interval, prompt.grid)))


def _named(runs: Sequence[Run], interval: int) -> Iterable[Run]:
    last = 0
    for run in runs:
        if run.kind is None or run.is_stop:
            continue
        if run.kind & _ALWAYS or run.end.token.value - last >= interval:
            last = run.end.token.value
            yield run


# Kept longest, the most precious first. Under any budget the last named is evicted first.
PRECIOUS = (
    "the live path's newest message end",
    "its last user-message end",
    "the system prompt's end",
    "the newest stop",
    "the last image edge",
    "the user-message end before",
)


@dataclass(frozen=True, slots=True)
class Worth:
    """Cost and gain of an eviction. `rank` is the place in PRECIOUS; `age` counts uses of the
    cache since the last own use."""

    rank: int | None
    rebuild_seconds: float
    num_bytes: int
    age: int


Thing = TypeVar("Thing")


def victim(candidates: Iterable[tuple[Thing, Worth]], by_bytes: bool) -> Thing | None:
    """The item to evict: the cheapest to rebuild (per byte, if bytes are short), weighted by age;
    precious things last."""
    return min(candidates, key=lambda pair: _order(pair[1], by_bytes), default=(None, None))[0]


def _order(worth: Worth, by_bytes: bool) -> tuple[int, float]:
    if worth.rank is not None:
        return len(PRECIOUS) - worth.rank, 0.0
    value = worth.rebuild_seconds / (1 + worth.age)
    return 0, value / max(1, worth.num_bytes) if by_bytes else value


@dataclass
class Throughput:
    """Measured seconds per prefilled token, encoded picture token, and byte from disk."""

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
        return (text_tokens + picture_tokens) * self.prefill + picture_tokens * self.encode

    def fetch_seconds(self, num_bytes: int) -> float:
        return num_bytes * (UNMEASURED_DISK if self.disk is None else self.disk)


def _mixed(old: float | None, new: float) -> float:
    return new if old is None else (1 - NEWEST) * old + NEWEST * new
