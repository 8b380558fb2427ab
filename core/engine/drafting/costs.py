"""The number of drafted tokens a step takes, by measured times and acceptance."""

from __future__ import annotations

from collections import deque
from statistics import median

# Readings kept per width: their median withstands a core that was taken away.
READINGS = 9
# Assumed until measured: the cost of each further token of a step, and of drafting a token with the
# model's own head, as shares of a step.
GUESSED_COST, GUESSED_DRAFTING = 0.2, 0.15
# Steps after which the oldest reading is dropped if none of them was of its kind.
FORGOTTEN_AFTER = 64
# Assumed acceptance of the model's own drafts: high enough to try them. What was measured fades
# slowly, or a wrong head would be tried again and again.
OWN_PRIOR, OWN_FADED = 0.85, 0.997
LEAST_GAIN = 1.02
# A prior counts as this many drafted tokens.
WEIGHT = 2.0
# The share of measured acceptance that is left after another draft, and after one not tried.
FORGOTTEN, FADED = 0.9, 0.99


class StepCosts:
    def __init__(self) -> None:
        self.own_drafts = Acceptance(OWN_PRIOR, OWN_FADED)
        self._readings: dict[int, _Readings] = {}
        self._known: dict[int, float] = {}
        # By width: the nearest measured one, and the guessed ratio to it.
        self._like: dict[int, tuple[int, float]] = {}
        self._drafting = _Readings()

    def note(self, num_tokens: int, seconds: float) -> None:
        """The first step of each width is left out: it sets things up."""
        self._readings.setdefault(num_tokens, _Readings()).note(seconds)
        for width, readings in self._readings.items():
            # Everything is compared with a step of one token: better old than guessed.
            if width not in (1, num_tokens):
                readings.note_unused()
        known = {
            width: readings.usual
            for width, readings in self._readings.items()
            if readings.usual is not None
        }
        if known.keys() != self._known.keys():
            self._like.clear()
        self._known = known

    def note_drafting(self, seconds: float) -> None:
        self._drafting.note(seconds)

    def note_undrafted(self) -> None:
        self._drafting.note_unused()

    def of_drafting(self) -> float:
        usual = self._drafting.usual
        return GUESSED_DRAFTING * self.of(1) if usual is None else usual

    def of(self, num_tokens: int) -> float:
        """Seconds, in proportion to the nearest measured width."""
        if num_tokens not in self._like:
            near = min(self._known, key=lambda size: (abs(size - num_tokens), size), default=1)
            self._like[num_tokens] = near, _guessed(num_tokens) / _guessed(near)
        width, times = self._like[num_tokens]
        return times * self._known.get(width, 1.0)


def _guessed(num_tokens: int) -> float:
    return 1 + GUESSED_COST * (num_tokens - 1)


class _Readings:
    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=READINGS)
        self._is_warm = False
        self._unused = 0
        self.usual: float | None = None

    def note(self, seconds: float) -> None:
        if self._is_warm:
            self._seconds.append(seconds)
        self._is_warm, self._unused = True, 0
        self._update()

    def note_unused(self) -> None:
        """The oldest reading expires: the cause of a slow one may be over."""
        self._unused += 1
        if self._unused % FORGOTTEN_AFTER == 0 and self._seconds:
            self._seconds.popleft()
            self._update()

    def _update(self) -> None:
        # Of two readings, either may have had to wait for something.
        few = len(self._seconds) < 3
        self.usual = min(self._seconds, default=None) if few else median(self._seconds)


class Acceptance:
    """The chance that a drafted token is accepted. A step without such a draft keeps the share
    `faded` of the measurements."""

    def __init__(self, prior: float, faded: float = FADED) -> None:
        self._prior, self._faded = prior, faded
        self._right = self._tried = 0.0

    @property
    def rate(self) -> float:
        return (self._right + self._prior * WEIGHT) / (self._tried + WEIGHT)

    def note(self, drafted: int, accepted: int) -> None:
        self._fade(FORGOTTEN)
        self._right += accepted
        self._tried += min(drafted, accepted + 1)

    def note_untried(self) -> None:
        self._fade(self._faded)

    def _fade(self, by: float) -> None:
        self._right *= by
        self._tried *= by


def best_depth(most: int, rate: float, costs: StepCosts, seconds: float = 0.0) -> tuple[int, float]:
    """The best number of drafted tokens, up to `most`, and the expected tokens per second."""
    plain = 1 / costs.of(1)
    best, fastest = 0, LEAST_GAIN * plain
    expected, chance = 1.0, 1.0
    for depth in range(1, most + 1):
        chance *= rate
        expected += chance
        speed = expected / (costs.of(1 + depth) + depth * seconds)
        if speed > fastest:
            best, fastest = depth, speed
    return best, fastest if best else plain
