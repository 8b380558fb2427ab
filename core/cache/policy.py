"""Which cuts get a checkpoint, what is evicted first, and the speeds that decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from core.api.prompt import EDGES, CutKind, Prompt, Run

# The share of the newest measurement: speeds follow a machine that gets busy within a few requests.
NEWEST = 0.3
# The share that older measurements keep, where lengths differ and more are needed.
FADING = 0.9
# Seconds per byte of a slow disk, until this one was measured: only eviction goes by it.
UNMEASURED_DISK = 1e-8
_ALWAYS = CutKind.MESSAGE_END | CutKind.CALL | EDGES


def rounded_interval(interval: int, grid: int) -> int:
    return -(-interval // grid) * grid


def plan(prompt: Prompt, interval: int) -> tuple[Run, ...]:
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
    "the last edge of a picture, a document or a long text",
    "the user-message end before",
)


@dataclass(frozen=True, slots=True)
class Worth:
    """`rank` is the place in PRECIOUS; `age` counts uses of the cache since the last own use."""

    rank: int | None
    rebuild_seconds: float
    num_bytes: int
    age: int


Thing = TypeVar("Thing")


def victim(candidates: Iterable[tuple[Thing, Worth]], by_bytes: bool) -> Thing | None:
    """The cheapest to rebuild (per byte, if bytes are short), weighted by age; precious things
    last."""
    return min(candidates, key=lambda pair: _order(pair[1], by_bytes), default=(None, None))[0]


def _order(worth: Worth, by_bytes: bool) -> tuple[int, float]:
    if worth.rank is not None:
        return len(PRECIOUS) - worth.rank, 0.0
    value = worth.rebuild_seconds / (1 + worth.age)
    return 0, value / max(1, worth.num_bytes) if by_bytes else value


@dataclass
class Line:
    """Seconds of a prefill as a line over its tokens, fitted to the newest measurements by relative
    error; not from 0, since a forward reads all weights for its first token."""

    # Weighted sums of 1, tokens, seconds, tokens squared, and tokens times seconds.
    sums: tuple[float, ...] = (0.0,) * 5

    def note(self, tokens: int, seconds: float) -> None:
        weight = tokens**-2.0
        new = (1, tokens, seconds, tokens * tokens, tokens * seconds)
        pairs = zip(self.sums, new, strict=True)
        self.sums = tuple(FADING * old + weight * each for old, each in pairs)

    def at(self, tokens: int) -> float | None:
        """None before the first measurement."""
        weights, lengths, seconds, squares, products = self.sums
        if not weights:
            return None
        slope, spread = products / squares, weights * squares - lengths**2
        # One length tells no line but that through 0, which is also the steepest.
        if spread > 1e-3 * weights * squares:
            slope = min(slope, max(0.0, (weights * products - lengths * seconds) / spread))
        return max(0.0, (seconds - slope * lengths) / weights) + slope * tokens


@dataclass
class Throughput:
    prefill: float = 1e-3
    encode: float = 1e-3
    disk: float | None = None
    requests: Line = field(default_factory=Line)

    def note_prefill(self, tokens: int, seconds: float) -> None:
        if tokens:
            self.prefill = _mixed(self.prefill, seconds / tokens)
            self.requests.note(tokens, seconds)

    def note_encode(self, tokens: int, seconds: float) -> None:
        if tokens:
            self.encode = _mixed(self.encode, seconds / tokens)

    def note_disk(self, num_bytes: int, seconds: float) -> None:
        if num_bytes:
            self.disk = _mixed(self.disk, seconds / num_bytes)

    def read_seconds(self, text_tokens: int, picture_tokens: int) -> float:
        return (text_tokens + picture_tokens) * self.prefill + picture_tokens * self.encode

    def request_seconds(self, tokens: int, encoded: int, num_bytes: int) -> float | None:
        """Time to prefill `tokens`, `encoded` of which go through the tower, and to fetch bytes;
        None before any measurement."""
        prefill = self.requests.at(tokens) if tokens else 0.0
        if prefill is None:
            return None
        fetch = self.fetch_seconds(num_bytes) if num_bytes else 0.0
        return prefill + encoded * self.encode + fetch

    def fetch_seconds(self, num_bytes: int) -> float:
        return num_bytes * (UNMEASURED_DISK if self.disk is None else self.disk)


def _mixed(old: float | None, new: float) -> float:
    return new if old is None else (1 - NEWEST) * old + NEWEST * new
