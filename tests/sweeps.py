"""Sweeps of which a few parameters run in `make test`, and all others in `make test-slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import cycle
from typing import TypeVar

import pytest

T = TypeVar("T")
U = TypeVar("U")


def thinned(given: Iterable[object], quick: Collection[object]) -> list[object]:
    """Parameters, or tuples of them, of which all but those in `quick` are slow."""
    every = list(given)
    assert set(quick) <= set(every), "no test would be quick"
    return [
        pytest.param(
            *(each if isinstance(each, tuple) else (each,)),
            marks=() if each in quick else pytest.mark.slow,
        )
        for each in every
    ]


def first_quick(given: Iterable[object]) -> list[object]:
    first, *rest = given
    return thinned([first, *rest], [first])


def rotated(
    first: Iterable[T], second: Sequence[U], whole: Collection[T] = ()
) -> list[tuple[T, U]]:
    """Pairs in which each value of `first` has one of `second`, in turn; those of `whole` have all.

    For values whose code paths don't meet, in place of their product.
    """
    turns = cycle(second)
    return [
        (each, other) for each in first for other in (second if each in whole else (next(turns),))
    ]
