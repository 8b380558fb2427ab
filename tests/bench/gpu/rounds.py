"""Ops of a GPU (tests.bench.gpu.case) in rounds, each between two readings of its limits.

Everybody who can do the op has a turn in every round, launched call by call and, where that can be
done, replayed from a trace. A generated token is replayed; a prompt is launched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tests.bench.gpu.case import Call, Case, Sizes
from tests.bench.gpu.clock import Clock, Stretch
from tests.bench.machine import Bounds
from tests.bench.spread import Spread

OWN = "Waymark"
# Of the root mean square of what both computed, one of them in bfloat16.
STRAY = 0.03
OTHER_NUMBERS = "other numbers"


@dataclass(frozen=True)
class Measured:
    """Seconds a call by round and by who made it, `replayed` where that could be captured.

    `floors` are the seconds that a call has to take on this GPU, `by_products` says of which limit.
    `missing` says why somebody has no seconds.
    """

    case: Case
    launched: Mapping[str, list[float]]
    replayed: Mapping[str, list[float]]
    floors: list[float]
    by_products: bool
    missing: Mapping[str, str]

    @property
    def best(self) -> list[float]:
        """Waymark's seconds: as replayed, else as launched."""
        return self.replayed.get(OWN) or self.launched[OWN]

    @property
    def of_limit(self) -> Spread:
        return Spread.of(
            floor / seconds for floor, seconds in zip(self.floors, self.best, strict=True)
        )

    @property
    def rate(self) -> Spread:
        """Bytes or operations a second, whichever bounds the op."""
        work = self.case.operations if self.by_products else self.case.least_bytes
        return Spread.of(work / seconds for seconds in self.best)


def times(taken: Mapping[str, list[float]], other: str) -> Spread | None:
    """How many times as fast Waymark was in the same round; None where one of them wasn't."""
    if OWN not in taken or other not in taken:
        return None
    pairs = zip(taken[OWN], taken[other], strict=True)
    return Spread.of(slower / own for own, slower in pairs)


@torch.inference_mode()
def measure(case: Case, limits: Bounds, clock: Clock, sizes: Sizes) -> Measured:
    """Rounds of everybody who can do the op and gives what Waymark gives."""
    there = {name: other for name, other in case.others.items() if not isinstance(other, str)}
    missing = {name: other for name, other in case.others.items() if isinstance(other, str)}
    missing |= _faults(case.run, there)
    ways = {OWN: case.run} | {name: there[name] for name in there if name not in missing}
    turns = {name: _Turn(call, case, clock, sizes) for name, call in ways.items()}
    launched: dict[str, list[float]] = {name: [] for name in turns}
    replayed: dict[str, list[float]] = {name: [] for name, turn in turns.items() if turn.trace}
    floors, by_products = [], False
    for _ in range(sizes.rounds):
        before = _floors(case, limits)
        for name, turn in turns.items():
            launched[name].append(turn.launched())
            if turn.trace is not None:
                replayed[name].append(turn.replayed(turn.trace))
        moving, computing = (
            (first + second) / 2
            for first, second in zip(before, _floors(case, limits), strict=True)
        )
        floors.append(max(moving, computing))
        by_products = computing > moving
    # The arguments go with the calls: hundreds of megabytes each.
    bare = replace(case, run=_gone, others={})
    return Measured(bare, launched, replayed, floors, by_products, missing)


class _Turn:
    """One implementation's calls in a round; kernels are compiled and chosen when it is made."""

    def __init__(self, call: Call, case: Case, clock: Clock, sizes: Sizes) -> None:
        self._clock, self._copies, self._call = clock, case.copies, call
        call(1 % case.copies)
        once = clock.seconds(lambda: call(0))
        self._calls = min(sizes.calls, max(1, math.ceil(sizes.seconds / once)))
        self.trace = clock.captured(self._stretch)

    def launched(self) -> float:
        """Seconds of a call, called from Python."""
        return self._clock.seconds(self._stretch) / self._calls

    def replayed(self, trace: Stretch) -> float:
        """Seconds of a call, replayed again."""
        return self._clock.seconds(trace) / self._calls

    def _stretch(self) -> None:
        for number in range(self._calls):
            self._call(number % self._copies)


def _floors(case: Case, limits: Bounds) -> tuple[float, float]:
    """Seconds that moving the bytes takes, and seconds of the products at bfloat16's best."""
    computing = case.operations / limits.multiply(torch.bfloat16) if case.operations else 0.0
    return case.least_bytes / limits.move(), computing


def _faults(own: Call, others: Mapping[str, Call]) -> dict[str, str]:
    """Who does not give Waymark's numbers for the first call on the same arguments, and why."""
    expected = _numbers(own(0))
    found = {name: _fault(other, expected) for name, other in others.items()}
    return {name: fault for name, fault in found.items() if fault is not None}


def _fault(other: Call, expected: Tensor) -> str | None:
    # Whatever goes wrong in another package costs the comparison, and not Waymark's own figures.
    try:
        return None if _alike(expected, _numbers(other(0))) else OTHER_NUMBERS
    except Exception as error:
        return f"raised {type(error).__name__}"


def _numbers(result: object) -> Tensor:
    """The first tensor of what a call returned; an id counts as one."""
    found = torch.as_tensor(result[0] if isinstance(result, tuple) else result).detach().flatten()
    return found.float() if found.is_floating_point() else found.cpu()


def _alike(first: Tensor, second: Tensor) -> bool:
    if not first.is_floating_point():
        return torch.equal(first, second.to(first.dtype))
    error = torch.linalg.vector_norm(first - second)
    return bool(error <= STRAY * torch.linalg.vector_norm(second))


def _gone(number: int) -> None:
    """Stands where a case's arguments were."""
