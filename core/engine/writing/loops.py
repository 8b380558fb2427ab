"""Detects a reply that repeats the same tokens."""

from __future__ import annotations

import numpy as np

from core.api.params import LOOP_PERIOD, LOOP_TIMES, LOOP_TOKENS

_PERIODS = np.arange(1, LOOP_PERIOD + 1)
# The first period of a loop has nothing before it to be equal to.
_ENOUGH = np.maximum(LOOP_TOKENS, LOOP_TIMES * _PERIODS) - _PERIODS


class LoopDetector:
    """Counts, for every period, how many of the last ids equal the id one period before.

    Exact, in the same time and memory for every id.
    """

    def __init__(self) -> None:
        # The newest first; no id is -1.
        self._last = np.full(LOOP_PERIOD, -1, np.int64)
        self._equal = np.zeros(LOOP_PERIOD, np.int64)

    def push(self, token_id: int) -> bool:
        """Take the next id; True where the ids so far end in a loop."""
        self._equal = np.where(self._last == token_id, self._equal + 1, 0)
        self._last = np.concatenate(([token_id], self._last[:-1]))
        return bool((self._equal >= _ENOUGH).any())
