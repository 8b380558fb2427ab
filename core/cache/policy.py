"""Which cuts get a checkpoint, and what goes first when there is no room for all.

Both are pure functions. Placement looks only at the prompt and the interval and is prefix-stable:
what follows a cut never changes whether it was named. Eviction acts on what is held, never on
placement, so a small count changes costs and not outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.api.prompt import CutKind, Prompt, Run

_ALWAYS = CutKind.MESSAGE_END | CutKind.IMAGE_START | CutKind.IMAGE_END


def rounded_interval(interval: int, grid: int) -> int:
    """The interval in tokens, rounded up to a multiple of the grid."""
    return -(-interval // grid) * grid


def plan(prompt: Prompt, interval: int) -> tuple[Run, ...]:
    """The runs of `prompt` that end at a cut which gets a checkpoint.

    Named are every message end, both edges of every image, and each grid cut at least `interval`
    tokens (rounded up to the grid) after the last named one.
    """
    return tuple(_named(prompt.runs, rounded_interval(interval, prompt.grid)))


def _named(runs: Sequence[Run], interval: int) -> Iterable[Run]:
    last = 0
    for run in runs:
        if run.kind is None or run.is_stop:
            continue
        if run.kind & _ALWAYS or run.end.token.value - last >= interval:
            last = run.end.token.value
            yield run


# What must stay longest, the most precious first. Under any budget the last named goes first.
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
    """What the loss of something would cost, and what it would free.

    `rank` is its place in PRECIOUS, None for everything else; `age` counts uses of the cache since
    its last own; `num_bytes` is what its loss frees.
    """

    rank: int | None
    rebuild_seconds: float
    num_bytes: int
    age: int


Thing = TypeVar("Thing")


def victim(candidates: Iterable[tuple[Thing, Worth]], by_bytes: bool) -> Thing | None:
    """What goes first; None when there is nothing to choose from.

    Of what isn't precious, the cheapest to rebuild (per byte freed, where bytes are short) and
    least likely to be needed: a use so many uses ago is that many times less likely to come again.
    Where only precious things are left, the least precious.
    """
    return min(candidates, key=lambda pair: _order(pair[1], by_bytes), default=(None, None))[0]


def _order(worth: Worth, by_bytes: bool) -> tuple[int, float]:
    if worth.rank is not None:
        return len(PRECIOUS) - worth.rank, 0.0
    value = worth.rebuild_seconds / (1 + worth.age)
    return 0, value / max(1, worth.num_bytes) if by_bytes else value
