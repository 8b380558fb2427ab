"""What drawing a token from scores takes and gives, wherever it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be drawn: temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 limit nothing."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


Draw = Callable[[Tensor, Limits, float], int | None]
"""`draw(scores, limits, point)`: the id at `point` in [0, 1) of the probabilities that `scores`
[vocab] float32 have within the limits. None where they hold NaN, +inf, or nothing above -inf."""
