"""How many mutants a run makes: a few in `make test`, more in `make test-slow`, and ten times as
many with WAYMARK_HOSTILE set to `full`."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest


def mutants(full: int) -> int:
    """`full` if WAYMARK_HOSTILE is `full`, else a tenth."""
    return full if os.environ.get("WAYMARK_HOSTILE") == "full" else full // 10


def each_of(full: int) -> pytest.MarkDecorator:
    """Runs a test with `count` mutants: a twentieth of `full`, and slowly with `mutants(full)`."""
    every = pytest.param(mutants(full), marks=pytest.mark.slow, id="more")
    return pytest.mark.parametrize("count", [pytest.param(full // 20, id="few"), every])


def first_quick(given: Iterable[object]) -> list[object]:
    """Parameters, or tuples of them, of which all but the first are slow."""
    first, *rest = ((each if isinstance(each, tuple) else (each,)) for each in given)
    return [pytest.param(*first), *(pytest.param(*each, marks=pytest.mark.slow) for each in rest)]
