"""A GPU's table of ops in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.gpu.case import FLA, PLAIN
from tests.bench.gpu.rounds import OWN, Measured, times
from tests.bench.speed_tables import table
from tests.bench.spread import Spread

TITLES = (
    "op",
    "µs",
    "a second",
    "of the limit",
    f"times {PLAIN}",
    f"times {FLA}",
    "launched, µs",
    f"launched, times {PLAIN}",
    f"launched, times {FLA}",
)


def ops_table(measured: Sequence[Measured]) -> str:
    """An op a line: as a trace replays it, then as Python launches it."""
    return table(TITLES, [_cells(each) for each in measured])


def summary(measured: Measured) -> str:
    """The table's line as far as one wants to see it at once."""
    titles = zip(TITLES, _cells(measured), strict=True)
    return "; ".join(f"{title} {cell}" for title, cell in titles if cell)


def _cells(measured: Measured) -> list[str]:
    replayed = _micro(measured.replayed[OWN]) if OWN in measured.replayed else ""
    unit, factor = ("TFLOP/s", 1e-12) if measured.by_products else ("GB/s", 1e-9)
    return [
        measured.case.name,
        replayed,
        f"{measured.rate.scaled(factor)} {unit}",
        str(measured.of_limit),
        *(_beside(measured, measured.replayed, other) for other in (PLAIN, FLA)),
        _micro(measured.launched[OWN]),
        *(_beside(measured, measured.launched, other) for other in (PLAIN, FLA)),
    ]


def _beside(measured: Measured, taken: Mapping[str, list[float]], other: str) -> str:
    """How many times as fast, or why that can't be said; nothing where nobody else has the op."""
    found = times(taken, other)
    return str(found) if found is not None else measured.missing.get(other, "")


def _micro(seconds: Sequence[float]) -> str:
    return str(Spread.of(seconds).scaled(1e6))
