"""The whole model beside its peers: steps, their order, and interleaved rounds of each.

In a round every engine has its turn, with the machine's limit measured before and after. Every
round checks the tokens read and generated, the context they follow, and that ids are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from tests.bench.machine import Bounds
from tests.bench.peer import Peer, Reading, Task
from tests.bench.spread import Spread

WARM_UP = 64  # tokens


@dataclass(frozen=True)
class Plan:
    """Sizes of all steps: tokens, pixels a side, and rounds until `seconds` are over for a step.

    `warm`: each engine does every step once before it is timed, because on a GPU the first time
    compiles, chooses and captures kernels. A reply always goes first: a model captures its steps in
    the first one after a load.
    """

    prompts: tuple[int, ...] = (512, 2_048)
    contexts: tuple[int, ...] = (0, 2_048, 8_192)
    tokens: int = 32
    images: tuple[int, ...] = (512, 1_024)
    rounds: int = 3
    seconds: float = 10.0
    warm: bool = False

    @property
    def longest(self) -> int:
        """Tokens of the longest context with what is drawn behind it."""
        return max(WARM_UP, *self.prompts, *self.contexts) + self.tokens + 1

    def steps(self) -> Iterator[Step]:
        """Pictures come before generating and the empty context last, so that no peak of memory
        comes from a peer's copy of its cache, and a context just read is not read again."""
        yield Step("load", 0)
        yield from (Step("prompt", size) for size in self.prompts)
        yield from (Step("image", size) for size in self.images)
        for context in sorted(self.contexts, key=lambda size: (size == 0, size)):
            yield Step("context", context)
            yield Step("generate", self.tokens, context)


QUICK = Plan(
    prompts=(64, 600), contexts=(0, 600, 700), tokens=4, images=(64, 128), rounds=2, seconds=1e9
)


class Step(NamedTuple):
    """A task of a size, behind a context of so many tokens where it generates."""

    task: Task
    size: int
    context: int = 0


@dataclass
class Row:
    """All readings of one step by engine, and the limit around each: bytes or operations a second,
    1 if the step has none. `strayed` are engines whose ids differed in a later round."""

    step: Step
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    limits: dict[str, list[float]] = field(default_factory=dict)
    strayed: set[str] = field(default_factory=set)

    def seconds(self, engine: str) -> list[float]:
        return [reading.seconds for reading in self.readings[engine]]

    def per_second(self, engine: str) -> Spread:
        return Spread.of(reading.tokens / reading.seconds for reading in self.readings[engine])

    def times(self, engine: str, peer: str) -> Spread:
        """Seconds of `engine` over those of `peer` in the same round."""
        pairs = zip(self.seconds(engine), self.seconds(peer), strict=True)
        return Spread.of(own / other for own, other in pairs)

    def of_limit(self, engine: str) -> Spread:
        """The share of the limit that was reached."""
        pairs = zip(self.readings[engine], self.limits[engine], strict=True)
        return Spread.of(work(reading) / reading.seconds / limit for reading, limit in pairs)

    def rate(self, engine: str) -> Spread:
        return Spread.of(work(reading) / reading.seconds for reading in self.readings[engine])

    def peak_bytes(self, engine: str) -> int:
        """Peak of the last round: a load starts a process, and the last one goes on."""
        return self.readings[engine][-1].peak_bytes


def measure(
    plan: Plan,
    peers: Mapping[str, Peer],
    limits: Bounds,
    dtype: torch.dtype,
    say: Callable[[str], None],
    beside: Callable[[Step], None] = lambda step: None,
) -> dict[Step, Row]:
    """Every step of the plan; matrix products are compared with the limit of `dtype`.

    `beside` measures right after a step what can't take turns in it.
    """
    rows = {}
    for step in plan.steps():
        say(f"{step.task} {step.size:,}" + (f" at {step.context:,}" * (step.task == "generate")))
        rows[step] = interleaved(plan, step, peers, _limit_of(step.task, limits, dtype))
        if plan.warm:  # a GPU is there for minutes: what was measured is told whatever comes next
            say("; ".join(f"{name} {min(rows[step].seconds(name)):.4g} s" for name in peers))
        beside(step)
        if step.task == "load":
            for peer in peers.values():
                peer.run("prompt", WARM_UP)  # the first call of a kernel chooses it
    return rows


def interleaved(
    plan: Plan, step: Step, peers: Mapping[str, Peer], limit: Callable[[], float]
) -> Row:
    """One step, each engine in its turn between two readings of the limit."""
    row = Row(step, {name: [] for name in peers}, {name: [] for name in peers})
    rounds = 1 if step.task == "context" else plan.rounds
    if step.task == "generate" or (plan.warm and step.task not in ("load", "context")):
        for peer in peers.values():
            peer.run(step.task, step.size)
    began = time.perf_counter()
    for number in range(rounds):
        if number and time.perf_counter() - began > plan.seconds:
            break
        for name, peer in peers.items():
            before = limit()
            reading = peer.run(step.task, step.size)
            row.limits[name].append((before + limit()) / 2)
            row.readings[name].append(reading)
            _check(step, reading)
            if reading.ids != row.readings[name][0].ids:
                # Who owes nobody the same bits may compute on a GPU in another order the next time.
                assert plan.warm, "every round draws the same ids"
                row.strayed.add(name)
    return row


def _check(step: Step, reading: Reading) -> None:
    if step.task == "generate":
        assert (reading.tokens, reading.context) == (step.size, step.context)
        assert len(reading.ids) == step.size
    elif step.task in ("prompt", "context"):
        assert reading.context == step.size, "the prompt is in the cache"


def _limit_of(task: Task, limits: Bounds, dtype: torch.dtype) -> Callable[[], float]:
    match task:
        case "generate":
            return limits.move
        case "prompt" | "image":
            return lambda: limits.multiply(dtype)
        case _:
            return lambda: 1.0


def work(reading: Reading) -> int:
    """Operations where they are what bounds it, else bytes."""
    return reading.operations or reading.least_bytes
