"""How many mutants a run makes: a few in `make test`, others in `make test-slow`, and ten times as
many with WAYMARK_HOSTILE set to `full`."""

from __future__ import annotations

import os

import pytest


def mutants(full: int) -> int:
    """`full` if WAYMARK_HOSTILE is `full`, else a tenth."""
    return full if os.environ.get("WAYMARK_HOSTILE") == "full" else full // 10


def each_of(full: int, again: bool = False) -> pytest.MarkDecorator:
    """Runs a test with a twentieth of `full` as `seeds`, and slowly with the other mutants.

    `again`: slowly with all of them, for a test that needs one which can still be read.
    """
    few, every = range(full // 20), range(mutants(full))
    rest = every if again else every[len(few) :]
    slow = pytest.param(rest, marks=pytest.mark.slow, id="more")
    return pytest.mark.parametrize("seeds", [pytest.param(few, id="few"), slow])
