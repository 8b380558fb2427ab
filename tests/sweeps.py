"""Sweeps of which a few parameters run in `make test`, and all others in `make test-slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


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
