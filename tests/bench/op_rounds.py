"""Ops (tests.bench.ops) in rounds, each between two measurements of the limits, and their table.

Each implementation has a turn in every round, called one by one and, on a GPU, replayed from a
trace: a generated token is replayed, a prompt is launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tests.bench.clock import Clock, Stretch
from tests.bench.machine import Bounds
from tests.bench.ops import FLA, PLAIN, Call, Numbers, Op, Sizes, all_ops
from tests.bench.speed_tables import table
from tests.bench.spread import Spread

OWN = "Waymark"
# Of the root mean square of what both computed, one of them in bfloat16.
STRAY = 0.03
OTHER_NUMBERS = "other numbers"


@dataclass(frozen=True)
class Measured:
    """Seconds a call by round and implementation, `replayed` if that could be captured.

    `floors` are the least possible seconds of a call here, `by_products` names the limit.
    `missing`: why an implementation has no figure.
    """

    op: Op
    launched: Mapping[str, list[float]]
    replayed: Mapping[str, list[float]]
    floors: list[float]
    by_products: bool
    missing: Mapping[str, str]

    @property
    def best(self) -> list[float]:
        """Waymark's seconds: replayed, else launched."""
        return self.replayed.get(OWN) or self.launched[OWN]

    @property
    def of_limit(self) -> Spread:
        pairs = zip(self.floors, self.best, strict=True)
        return Spread.of(floor / seconds for floor, seconds in pairs)

    @property
    def rate(self) -> Spread:
        """Bytes or operations a second, whichever bounds the op."""
        work = self.op.operations if self.by_products else self.op.least_bytes
        return Spread.of(work / seconds for seconds in self.best)

    def times(self, taken: Mapping[str, list[float]], other: str) -> str:
        """Waymark's speed over the other's in the same round, or why there is no figure."""
        if OWN not in taken or other not in taken:
            return self.missing.get(other, "")
        pairs = zip(taken[OWN], taken[other], strict=True)
        return str(Spread.of(slower / own for own, slower in pairs))


def ops_text(
    precisions: Iterable[str],
    numbers: Numbers,
    limits: Bounds,
    clock: Clock,
    say: Callable[[str], None],
) -> str:
    """A table of all ops for each precision."""
    texts = []
    for precision in precisions:
        measured, failed = [], []
        for op in all_ops(numbers, precision):
            say(f"{precision}: {op.name}")
            # A GPU is there for minutes: an op that fails must not cost the others' figures.
            try:
                measured.append(measure(op, limits, clock, numbers.sizes))
            except Exception as error:
                lines = str(error).splitlines() or [""]
                failed.append(f"Not measured: {op.name} ({type(error).__name__}: {lines[0]}).")
            else:
                say("; ".join(_cells(measured[-1], numbers.on_gpu)))
        told = "".join(f"\n{each}\n" for each in failed)
        texts.append(f"**{precision}**\n\n{ops_table(measured, numbers.on_gpu)}{told}")
    return "\n".join(texts)


def ops_table(measured: Sequence[Measured], on_gpu: bool) -> str:
    """An op a line; on a GPU replayed from a trace, then launched by Python."""
    titles = ["op", "µs", "a second", "of the limit", f"times {PLAIN}"]
    if on_gpu:
        launched = ("launched, µs", f"launched, times {PLAIN}", f"launched, times {FLA}")
        titles += [f"times {FLA}", *launched]
    return table(titles, [_cells(each, on_gpu) for each in measured])


def _cells(measured: Measured, on_gpu: bool) -> list[str]:
    unit, factor = ("TFLOP/s", 1e-12) if measured.by_products else ("GB/s", 1e-9)
    launched = measured.launched
    told = [f"{measured.rate.scaled(factor)} {unit}", str(measured.of_limit)]
    if not on_gpu:
        micro = _micro(launched[OWN])
        return [measured.op.name, micro, *told, measured.times(launched, PLAIN)]
    replayed = measured.replayed
    return [
        measured.op.name,
        _micro(replayed[OWN]) if OWN in replayed else "",
        *told,
        *(measured.times(replayed, other) for other in (PLAIN, FLA)),
        _micro(launched[OWN]),
        *(measured.times(launched, other) for other in (PLAIN, FLA)),
    ]


def _micro(seconds: Sequence[float]) -> str:
    return str(Spread.of(seconds).scaled(1e6))


@torch.inference_mode()
def measure(op: Op, limits: Bounds, clock: Clock, sizes: Sizes) -> Measured:
    """Rounds of all implementations that give Waymark's numbers."""
    there = {name: other for name, other in op.others.items() if not isinstance(other, str)}
    missing = {name: other for name, other in op.others.items() if isinstance(other, str)}
    missing |= _faults(op.run, there)
    ways = {OWN: op.run} | {name: there[name] for name in there if name not in missing}
    turns = {name: _Turn(call, op, clock, sizes) for name, call in ways.items()}
    launched: dict[str, list[float]] = {name: [] for name in turns}
    replayed: dict[str, list[float]] = {name: [] for name, turn in turns.items() if turn.trace}
    floors, by_products = [], False
    for _ in range(sizes.rounds):
        before = _floors(op, limits)
        for name, turn in turns.items():
            launched[name].append(turn.launched())
            if turn.trace is not None:
                replayed[name].append(turn.replayed(turn.trace))
        moving, computing = (
            (first + second) / 2 for first, second in zip(before, _floors(op, limits), strict=True)
        )
        floors.append(max(moving, computing))
        by_products = computing > moving
    # The arguments go with the calls: hundreds of megabytes each.
    bare = replace(op, run=_gone, others={})
    return Measured(bare, launched, replayed, floors, by_products, missing)


class _Turn:
    """One implementation's calls in a round; kernels are compiled and chosen when it is made."""

    def __init__(self, call: Call, op: Op, clock: Clock, sizes: Sizes) -> None:
        self._clock, self._copies, self._call = clock, op.copies, call
        call(1 % op.copies)
        once = clock.seconds(lambda: call(0))
        self._calls = min(sizes.calls, max(1, math.ceil(sizes.seconds / once)))
        self.trace = clock.captured(self._stretch)

    def launched(self) -> float:
        """Seconds of a call, called from Python."""
        return self._clock.seconds(self._stretch) / self._calls

    def replayed(self, trace: Stretch) -> float:
        return self._clock.seconds(trace) / self._calls

    def _stretch(self) -> None:
        for number in range(self._calls):
            self._call(number % self._copies)


def _floors(op: Op, limits: Bounds) -> tuple[float, float]:
    """Seconds that moving the bytes takes, and seconds of the products."""
    computing = op.operations / limits.multiply(op.dtype) if op.operations else 0.0
    return op.least_bytes / limits.move(), computing


def _faults(own: Call, others: Mapping[str, Call]) -> dict[str, str]:
    """Others that don't give Waymark's numbers for the first call, and why."""
    expected = _numbers(own(0))
    found = {name: _fault(other, expected) for name, other in others.items()}
    return {name: fault for name, fault in found.items() if fault is not None}


def _fault(other: Call, expected: Tensor) -> str | None:
    # A failure of another package costs the comparison, and not Waymark's own figures.
    try:
        return None if _alike(expected, _numbers(other(0))) else OTHER_NUMBERS
    except Exception as error:
        return f"raised {type(error).__name__}"


def _numbers(result: object) -> Tensor:
    """The first tensor of a call's result."""
    found = result[0] if isinstance(result, tuple) else result
    return torch.as_tensor(found).detach().flatten().float()


def _alike(first: Tensor, second: Tensor) -> bool:
    error = torch.linalg.vector_norm(first - second)
    return bool(error <= STRAY * torch.linalg.vector_norm(second))


def _gone(number: int) -> None:
    """Takes the place of an op's arguments."""
