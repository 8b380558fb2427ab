"""Which cuts get a checkpoint, and which checkpoint goes when there are too many.

Both are pure functions. Placement looks only at the prompt and the interval and is prefix-stable:
what follows a cut never changes whether it was named. Eviction acts on what is held, never on
placement, so a small count changes costs and not outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

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
        if run.kind is None:
            continue
        if run.kind & _ALWAYS or run.end.token.value - last >= interval:
            last = run.end.token.value
            yield run


class Held(Protocol):
    """What eviction looks at: when a checkpoint was last used."""

    last_used: int


HeldCheckpoint = TypeVar("HeldCheckpoint", bound=Held)


def victim(held: Iterable[HeldCheckpoint], spared: HeldCheckpoint | None) -> HeldCheckpoint | None:
    """The least recently used checkpoint; `spared` (the live path's newest message end) goes last.

    None when nothing is held.
    """
    candidates = list(held)
    others = [node for node in candidates if node is not spared]
    return min(others or candidates, key=lambda node: node.last_used, default=None)
