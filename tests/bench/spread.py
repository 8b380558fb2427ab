"""Several readings of one thing: their median and range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of readings, the lowest, the highest, and how many there were."""

    middle: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(readings: Iterable[float]) -> Spread:
        values = sorted(readings)
        return Spread(median(values), values[0], values[-1], len(values))

    def scaled(self, factor: float) -> Spread:
        low, high = factor * self.low, factor * self.high
        return Spread(factor * self.middle, low, high, self.count)

    def __str__(self) -> str:
        """Such as "1.23 [1.20-1.31]"; one reading has no range."""
        if self.count == 1:
            return _short(self.middle)
        return f"{_short(self.middle)} [{_short(self.low)}-{_short(self.high)}]"


def _short(value: float) -> str:
    """Three digits, and no fewer than the whole number."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
