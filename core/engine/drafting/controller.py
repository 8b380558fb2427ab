"""How many drafted tokens a step takes: as many as gain the most, by what steps cost and how often
such drafts were right.

Nothing here can change a reply, only how fast it comes.
"""

from __future__ import annotations

from collections import deque
from statistics import median

# Readings of a width that are kept: their median is not moved by a core that was taken away.
READINGS = 9
# What each further token adds to a step, and what a model's own draft of a token takes, as long as
# nobody has measured it.
GUESSED_COST, GUESSED_DRAFTING = 0.2, 0.15
# Steps after which a reading is forgotten, where none of them was of its kind.
FORGOTTEN_AFTER = 64
# How often a model's own draft is right, as long as none was tried: high enough for that. What was
# seen fades slowly, or a head that is wrong would be tried again and again.
OWN_PRIOR, OWN_FADED = 0.85, 0.997
# What drafting has to gain at least.
LEAST_GAIN = 1.02
# As many drafted tokens as what was expected of them counts for.
WEIGHT = 2.0
# Of what a kind of draft has shown, what is left after the next one; after one that was not tried.
FORGOTTEN, FADED = 0.9, 0.99


class StepCosts:
    """What is known of this model from one reply to the next: seconds of a step by its number of
    tokens, and of a token of the model's own draft; and how often that was right."""

    def __init__(self) -> None:
        self.own_drafts = Acceptance(OWN_PRIOR, OWN_FADED)
        self._readings: dict[int, _Readings] = {}
        self._known: dict[int, float] = {}
        # Of a width: one that was measured, and how many times as long it is guessed to take.
        self._like: dict[int, tuple[int, float]] = {}
        self._drafting = _Readings()

    def note(self, num_tokens: int, seconds: float) -> None:
        """One step. The first of each width is left out: what is made once is made then."""
        self._readings.setdefault(num_tokens, _Readings()).note(seconds)
        for width, readings in self._readings.items():
            # What all others are compared with is better old than guessed.
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
        """For each token, by a model's own draft; the first is left out here too."""
        self._drafting.note(seconds)

    def note_undrafted(self) -> None:
        """No draft of the model's own."""
        self._drafting.note_unused()

    def of_drafting(self) -> float:
        """Seconds that a model's own draft of a token takes."""
        usual = self._drafting.usual
        return GUESSED_DRAFTING * self.of(1) if usual is None else usual

    def of(self, num_tokens: int) -> float:
        """Seconds of a step of so many tokens, in proportion where none was measured."""
        if num_tokens not in self._like:
            near = min(self._known, key=lambda size: (abs(size - num_tokens), size), default=1)
            self._like[num_tokens] = near, _guessed(num_tokens) / _guessed(near)
        width, times = self._like[num_tokens]
        return times * self._known.get(width, 1.0)


def _guessed(num_tokens: int) -> float:
    return 1 + GUESSED_COST * (num_tokens - 1)


class _Readings:
    """Of one thing, but for the first; `usual` is None as long as there is none."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=READINGS)
        self._is_warm = False
        self._unused = 0
        self.usual: float | None = None

    def note(self, seconds: float) -> None:
        if self._is_warm:
            self._seconds.append(seconds)
        self._is_warm, self._unused = True, 0
        self._count()

    def note_unused(self) -> None:
        """A step without it. What made a reading slow may be over: the oldest goes in time."""
        self._unused += 1
        if self._unused % FORGOTTEN_AFTER == 0 and self._seconds:
            self._seconds.popleft()
            self._count()

    def _count(self) -> None:
        # Of two nobody knows which had to wait for something.
        few = len(self._seconds) < 3
        usual = min(self._seconds, default=None) if few else median(self._seconds)
        self.usual = usual


class Acceptance:
    """How likely a drafted token of some kind is right, from `prior` on; where none is tried, of
    what was seen `faded` is left after each step."""

    def __init__(self, prior: float, faded: float = FADED) -> None:
        self._prior, self._faded = prior, faded
        self._right = self._tried = 0.0

    @property
    def rate(self) -> float:
        """Between 0 and 1, both left out."""
        return (self._right + self._prior * WEIGHT) / (self._tried + WEIGHT)

    def note(self, drafted: int, accepted: int) -> None:
        """A draft: what stands behind its first wrong token says nothing."""
        self._fade(FORGOTTEN)
        self._right += accepted
        self._tried += min(drafted, accepted + 1)

    def note_untried(self) -> None:
        """A draft that was not worth trying. So it is tried again some time."""
        self._fade(self._faded)

    def _fade(self, by: float) -> None:
        self._right *= by
        self._tried *= by


def best_depth(most: int, rate: float, costs: StepCosts, seconds: float = 0.0) -> tuple[int, float]:
    """How many of `most` drafted tokens a step should take, 0 where none gains anything, and the
    tokens a second expected then; `seconds` are what it takes to draft one."""
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
