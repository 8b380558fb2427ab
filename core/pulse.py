"""Progress of the computing thread: a count that its watchers compare, to tell slow from hung.

Steps that take long by nature announce it with `long_step`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# The longest step of a request is one product of a run with one matrix: seconds, on a slow machine
# with a large model.
STEP_S = 20.0
# Attention of a layer has no steps of its own. What it multiplies for a pair of tokens is at most
# four times the width of a large model, and this is what a slow machine does in a second.
_PAIR_FLOPS, _SLOW_FLOPS = 4.0 * 8192, 2e10

_signs = [0]
_longest = [STEP_S]


def sign() -> None:
    """Count one finished step."""
    _signs[0] += 1


def signs() -> int:
    """Steps finished since the process started."""
    return _signs[0]


def longest_step_s() -> float:
    """Seconds that may pass between two signs now."""
    return _longest[-1]


def attention_s(rows: int, keys: int) -> float:
    """Seconds that a layer's attention of `rows` tokens to `keys` others may take."""
    return STEP_S + rows * keys * _PAIR_FLOPS / _SLOW_FLOPS


@contextmanager
def long_step(seconds: float) -> Iterator[None]:
    """Allow `seconds` without a sign inside: for a compiler, a driver, a slow disk."""
    _longest.append(max(seconds, _longest[-1]))
    try:
        yield
    finally:
        _longest.pop()
        sign()
