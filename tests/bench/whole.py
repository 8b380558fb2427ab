"""The whole model's speed, computed where it is too large to be measured.

A cut takes the time of its layers, and of the table and head, which are also measured with almost
no layers. So a layer's time is known, and that of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tests.bench.rounds import Row, Step, work
from tests.bench.shapes import Cut
from tests.bench.speed_tables import PEER, engines, order, table
from tests.bench.spread import Spread

Measured = tuple[Mapping[Step, Row], Mapping[str, Mapping[Step, Spread]]]
"""Our measurements by step, and tokens a second by other program and step."""


@dataclass(frozen=True)
class Parts:
    """Time, bytes or operations: of a cut, and of its table and head alone."""

    of_cut: float
    head: float
    cut: Cut

    @property
    def layer(self) -> float:
        return (self.of_cut - self.head) / self.cut.layers

    @property
    def every(self) -> float:
        """All layers, the table and the head; 0 if the layers can't be told."""
        return self.head + self.cut.whole * self.layer if self.layer > 0 else 0.0


def whole_table(cut: Cut, engine: str, measured: Measured, alone: Measured) -> str:
    """A table of layers, table and head, and of all together; `alone` are the table and head."""
    (rows, beside), (_, beside_head) = measured, alone
    named = [engine, PEER, *(each for each in engines(rows) if each.startswith(f"{PEER} "))]
    others = [each for each in beside if each in beside_head]
    titles = ["computed", "Waymark", PEER, "ratio", "of the limit"]
    for name in (*named[2:], *others):
        titles += [name, "ratio"]
    lines = []
    for step in sorted(rows, key=order):
        if step.task in ("prompt", "generate"):
            times = {each: _times(cut, each, step, measured, alone) for each in (*named, *others)}
            lines += _lines(cut, step, times, _shares(cut, engine, step, measured, alone))
    told = (
        f"Computed for all {cut.whole} layers from these {cut.layers}, and from the same table and "
        "head behind next to no layer:"
    )
    return f"{told}\n\n{table(titles, lines)}"


def _times(cut: Cut, name: str, step: Step, measured: Measured, alone: Measured) -> Parts | None:
    """Seconds of a prompt, or of a generated token; None where somebody failed."""
    found = [_seconds(name, step, each) for each in (measured, alone)]
    if found[0] is None or found[1] is None:
        return None
    return Parts(found[0], found[1], cut)


def _seconds(name: str, step: Step, measured: Measured) -> float | None:
    rows, beside = measured
    a_time = step.size if step.task == "generate" else 1
    if name in rows[step].readings:
        return median(rows[step].seconds(name)) / a_time
    spread = beside[name].get(step)
    return step.size / spread.middle / a_time if spread else None


def _shares(
    cut: Cut, engine: str, step: Step, measured: Measured, alone: Measured
) -> tuple[Parts, float]:
    """Bytes or operations, and how many the machine could do in a second."""
    a_time = step.size if step.task == "generate" else 1
    done = [work(rows[step].readings[engine][0]) / a_time for rows, _ in (measured, alone)]
    return Parts(done[0], done[1], cut), median(measured[0][step].limits[engine])


def _lines(
    cut: Cut, step: Step, times: Mapping[str, Parts | None], done: tuple[Parts, float]
) -> list[list[str]]:
    kind = f"prompt of {step.size:,}" if step.task == "prompt" else f"behind {step.context:,}"
    tokens = step.size if step.task == "prompt" else 1
    lines = []
    for part, name in (
        ("layer", f"{kind}: a layer, ms"),
        ("head", f"{kind}: table and head, ms"),
        ("every", f"{kind}: {cut.whole} layers, tokens/s"),
    ):
        own, *others = [getattr(each, part) if each else 0.0 for each in times.values()]
        cells = [_value(part, own, tokens)]
        for other in others:
            faster = other / own if own > 0 else 0.0
            ratio = faster if part == "every" else 1 / faster if faster > 0 else 0.0
            cells += [_value(part, other, tokens), _told(ratio)]
        limit = _told(getattr(done[0], part) / own / done[1]) if own > 0 else ""
        lines.append([name, *cells[:3], limit, *cells[3:]])
    return lines


def _value(part: str, seconds: float, tokens: int) -> str:
    """Nothing where rounds were too unlike each other to tell."""
    if seconds <= 0:
        return ""
    return _told(tokens / seconds if part == "every" else 1000 * seconds)


def _told(number: float) -> str:
    return str(Spread.of([number])) if number > 0 else ""
