"""Signs of life of the thread that computes: a count that rises with everything it has finished.

Whoever waits for that thread can tell a long piece of work, which moves on in small steps, from one
that never ends. A step that is long by nature announces itself.
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
    """Something is finished. Costs as much as any call of a function."""
    _signs[0] += 1


def signs() -> int:
    """How much was finished since the process began."""
    return _signs[0]


def longest_step_s() -> float:
    """Seconds that may pass now between two signs."""
    return _longest[-1]


def attention_s(rows: int, keys: int) -> float:
    """Seconds that a layer's attention of `rows` tokens to `keys` others may take."""
    return STEP_S + rows * keys * _PAIR_FLOPS / _SLOW_FLOPS


@contextmanager
def long_step(seconds: float) -> Iterator[None]:
    """What is done inside may take `seconds` without a sign: a compiler, a driver, a slow disk."""
    _longest.append(max(seconds, _longest[-1]))
    try:
        yield
    finally:
        _longest.pop()
        sign()
