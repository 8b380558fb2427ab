"""Which models of the hub suit this computer, by published sizes and this machine's speed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.downloads.messages import Repository
from core.library.messages import Speed
from desktop.i18n import tr
from desktop.models.fits import (
    BYTES_PER_PARAMETER,
    ROOM_BYTES,
    Fit,
    Memory,
    fit_name,
    fit_of,
    needs,
)
from desktop.numbers import BETWEEN, format_bytes, format_speed, short_count

MOST_SUGGESTED = 3
# Slower replies are tiresome to follow.
SLOWEST_TOKENS_S = 3.0
_ACTIVE = re.compile(r"-A(\d+(?:\.\d+)?)B(?:-|$)")


@dataclass(frozen=True, slots=True)
class Estimate:
    """How a model would run here: in the most exact precision that fits, in about `num_bytes`;
    `tokens_s` is 0 while this machine's speed isn't known."""

    fit: Fit
    precision: str = ""
    num_bytes: int = 0
    tokens_s: float = 0.0

    def words(self, found: Repository) -> str:
        size = tr("{count} parameters").format(count=short_count(found.parameters))
        needed = tr("about {size} in {precision}").format(
            size=format_bytes(self.num_bytes), precision=self.precision
        )
        speed = tr("about {speed}").format(speed=format_speed(self.tokens_s))
        parts = (
            size if found.parameters else "",
            needed if self.precision else fit_name(self.fit),
            speed if self.tokens_s else "",
            found.licence,
        )
        return BETWEEN.join(part for part in parts if part)


def estimate(found: Repository, available: Memory, speeds: Sequence[Speed]) -> Estimate:
    fit = fit_of(needs(found.parameters), available)
    if fit is not Fit.FITS:
        return Estimate(fit)
    # Where float32 is faster than bfloat16, it is tried first.
    exact = {"float32": 4.0} if speeds and speeds[0].precision == "float32" else {}
    sizes = {
        precision: int(found.parameters * each) + ROOM_BYTES
        for precision, each in {**exact, **BYTES_PER_PARAMETER}.items()
    }
    precision = next(each for each, size in sizes.items() if size <= available.free)
    billions = active_parameters(found) / 10**9
    step_s = next((billions * each.step_s for each in speeds if each.precision == precision), 0.0)
    return Estimate(fit, precision, sizes[precision], 1 / step_s if step_s else 0.0)


def suited_models(
    found: Sequence[Repository], available: Memory, speeds: Sequence[Speed]
) -> list[Repository]:
    """The largest that fit and reply fast enough, at most three; else the smallest that fits.

    None while this machine's speed isn't known: the largest may be too slow to use.
    """
    if not speeds:
        return []
    estimates = [(each, estimate(each, available, speeds)) for each in found]
    fitting = [(each, how) for each, how in estimates if how.fit is Fit.FITS]
    fast = [each for each, how in fitting if not 0 < how.tokens_s < SLOWEST_TOKENS_S]
    if not fast:
        return [each for each, _ in fitting][:1]
    return sorted(fast, key=lambda each: -each.parameters)[:MOST_SUGGESTED]


def active_parameters(found: Repository) -> float:
    """The parameters that a token goes through, which names of models with experts tell."""
    active = _ACTIVE.search(found.name)
    return float(active[1]) * 10**9 if active else found.parameters
