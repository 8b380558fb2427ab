"""How many threads the next one-token step should have, by how long the last ones took.

Where another program takes a core, threads that share a product wait for the one that was put off,
and fewer threads are faster. A pure decision: it reads no clock and sets nothing, and knows nothing
of bits. It starts from the full number, now and then tries a neighbouring one, and goes over to it
only where that is plainly faster, step after step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

# Another count has to take less than this share of the best of the last steps, twice in a row:
# against the best of three, a single step that was put off decides nothing.
_PLAINLY_FASTER = 0.9
_COMPARED = 3
_CONVINCING = 2
# What trials in vain may cost, as a share of the time: little with all threads, where nearly all
# machines nearly always are, more with fewer, where staying too long costs far more.
_SHARE_FULL = 0.01
_SHARE_FEWER = 0.03
_FEWEST_BETWEEN = 16  # steps between two trials, however little they cost
_LONGEST_REST_S = 60.0  # a step during which the machine slept cost less than it seems
# As many steps in a row that take so many times what was usual are worth a look before its time.
_SLOW = 1.3
_USUAL = 16
_SOONER = 5  # times


class ThreadChoice:
    """Chooses among `counts`, which fall; the first is the full number.

    Ask `next` before a step and tell `took` after it. Times are seconds on any clock that only goes
    forward.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self._counts = list(counts)
        assert self._counts == sorted(set(counts), reverse=True) and self._counts[-1] > 0
        self._count = self._counts[0]
        self._warm: set[int] = {self._count}
        self._looked_at = self._wait = -math.inf
        self._downwards = False
        self.restart()

    @property
    def full(self) -> int:
        """The count that is always allowed."""
        return self._counts[0]

    @property
    def settled(self) -> bool:
        """Whether there is nothing to choose, or no longer."""
        return len(self._counts) == 1

    def restart(self) -> None:
        """Another context follows: how long steps took before says nothing about it."""
        self._steps: deque[float] = deque(maxlen=_USUAL)
        self._trial: int | None = None
        self._tried: list[float] = []

    def next(self, now: float) -> int:
        """The count for the next step."""
        if self._trial is None and self._should_look(now):
            self._trial, self._tried = self._neighbour(), []
        return self._count if self._trial is None else self._trial

    def refuse(self, count: int) -> None:
        """Never name this count again."""
        assert count not in (self.full, self._count)
        self._counts.remove(count)
        self._trial = None

    def took(self, count: int, seconds: float, now: float) -> None:
        """A step with `count` threads took `seconds` and ended `now`."""
        if count not in self._warm:
            # The first step with a count makes what later ones find made.
            self._warm.add(count)
        elif count == self._trial:
            self._judge(count, seconds, now)
        elif count == self._count:
            self._steps.append(seconds)

    def _judge(self, count: int, seconds: float, now: float) -> None:
        usual = median(self._steps)
        if seconds >= _PLAINLY_FASTER * min(list(self._steps)[-_COMPARED:]):
            self._trial = None
            share = _SHARE_FULL if self._count == self.full else _SHARE_FEWER
            spent = sum(self._tried) + seconds - (len(self._tried) + 1) * usual
            self._rest(max(spent / share, _FEWEST_BETWEEN * usual), now)
            return
        self._tried.append(seconds)
        if len(self._tried) == _CONVINCING:
            self._move_to(count)
            self._steps.extend(self._tried)
            self._rest(_FEWEST_BETWEEN * seconds, now)

    def _rest(self, seconds: float, now: float) -> None:
        self._looked_at, self._wait = now, min(seconds, _LONGEST_REST_S)
        # What was usual is measured anew, so that slow steps make one look early, and not each.
        while len(self._steps) > _COMPARED:
            self._steps.popleft()

    def _move_to(self, count: int) -> None:
        self._count, self._trial = count, None
        self._steps.clear()

    def _should_look(self, now: float) -> bool:
        if self.settled or len(self._steps) < _COMPARED:
            return False
        rested = now - self._looked_at
        return rested >= self._wait or (rested >= self._wait / _SOONER and self._slowed_down())

    def _slowed_down(self) -> bool:
        *before, last_but_two, last_but_one, last = self._steps
        enough = len(before) >= _USUAL // 2
        return enough and min(last_but_two, last_but_one, last) > _SLOW * median(before)

    def _neighbour(self) -> int:
        """The next count in the direction that was not tried last, if there is one."""
        place = self._counts.index(self._count)
        self._downwards = not self._downwards
        step = 1 if self._downwards else -1
        there = place + step if 0 <= place + step < len(self._counts) else place - step
        return self._counts[there]


def counts_to_choose_from(full: int) -> tuple[int, ...]:
    """All threads, all but the one whose core another program has, half of them, and one."""
    return tuple(sorted({full, max(1, full - 1), max(1, full // 2), 1}, reverse=True))
