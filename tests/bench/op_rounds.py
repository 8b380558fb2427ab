"""Ops (tests.bench.ops) in rounds, each between two readings of the limit it is held against."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.bench.machine import Bounds
from tests.bench.ops import Call, Op, Sizes
from tests.bench.spread import Spread


@dataclass(frozen=True)
class Measured:
    """Seconds a call, the share of the machine's limit, and how many times as fast as the other
    implementation, by round."""

    op: Op
    seconds: Spread
    of_limit: Spread
    times: Spread | None


def measure(op: Op, limits: Bounds, sizes: Sizes) -> Measured:
    """Rounds of the op between two readings of its limit, the other implementation behind it."""
    turn = itertools.count()
    per_round = _calls_for(op.run, op.copies, sizes.seconds)
    if op.other is not None:
        op.other(0)
    seconds, shares, others = [], [], []
    for _ in range(sizes.rounds):
        before = _limit(op, limits)
        seconds.append(_timed(op.run, op.copies, turn, per_round))
        limit = (before + _limit(op, limits)) / 2
        shares.append((op.operations or op.least_bytes) / seconds[-1] / limit)
        if op.other is not None:
            calls = max(1, per_round // 4)  # it is the slower one, mostly by far
            others.append(_timed(op.other, op.copies, turn, calls) / seconds[-1])
    times = Spread.of(others) if others else None
    # The arguments go with the op: hundreds of megabytes each.
    bare = replace(op, run=_gone, other=None)
    return Measured(bare, Spread.of(seconds), Spread.of(shares), times)


def _calls_for(call: Call, copies: int, seconds: float) -> int:
    """Calls that take so long together: one alone may be shorter than the clock's own noise."""
    call(0)
    began = time.perf_counter()
    call(1 % copies)
    return max(1, math.ceil(seconds / (time.perf_counter() - began)))


def _timed(call: Call, copies: int, turn: Iterator[int], calls: int) -> float:
    """Seconds of one call, the mean over so many."""
    began = time.perf_counter()
    for _ in range(calls):
        call(next(turn) % copies)
    return (time.perf_counter() - began) / calls


def _limit(op: Op, limits: Bounds) -> float:
    return limits.multiply(op.dtype) if op.operations else limits.move()


def _gone(number: int) -> None:
    """Stands where an op's arguments were."""
