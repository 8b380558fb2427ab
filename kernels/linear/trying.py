"""Whether a product is worth having on this processor: by exactness, and by a bounded measurement.

A library may have a product for a processor that is right and a thousand times too slow, its own
reference code. So each is timed beside the way that plain torch has, and given up early.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# One row is what generating waits for, a block of rows what a prompt is read by.
ROWS = (1, 64)
OUTPUTS, INPUTS = 512, 1024
_FEWEST_ROUNDS = 3
# Past this a product is given up: a round should have taken a millisecond.
GIVEN_UP_S = 0.2
# A busy machine's noise must not turn the answer from one start to the next: products of integers
# are some times faster than plain torch's, or a hundred times slower.
MARGIN = 1.1
# So much slower in two rounds that no noise explains it.
_HOPELESS = 20.0

Product = Callable[[int], object]
"""Multiplies that many rows of INPUTS with a weight [OUTPUTS, INPUTS]."""
Clock = Callable[[], float]


def keeps_up(product: Product, plain: Product, clock: Clock = time.perf_counter) -> bool:
    """Whether `product` takes at most MARGIN times as long as `plain`, by the best of some rounds.

    Ends with the first round that shows it, in a millisecond or so. On a busy machine there may be
    more: three for each number of rows, and others within GIVEN_UP_S.
    """
    # What is made once, at the first call, is no part of a product.
    product(1), plain(1)
    return all(_keeps_up(product, plain, rows, clock) for rows in ROWS)


def _keeps_up(product: Product, plain: Product, rows: int, clock: Clock) -> bool:
    began, rounds = clock(), 0
    best = usual = float("inf")
    while rounds < _FEWEST_ROUNDS or clock() - began < GIVEN_UP_S:
        rounds += 1
        before = clock()
        product(rows)
        between = clock()
        plain(rows)
        after = clock()
        best, usual = min(best, between - before), min(usual, after - between)
        if best <= MARGIN * usual:
            return True
        if rounds > 1 and best > GIVEN_UP_S / 2 and best > _HOPELESS * usual:
            break
    return False
