"""How many mutants a run makes: a few in `make test`, more in `make test-slow`, and ten times as
many with WAYMARK_HOSTILE set to `full`."""

from __future__ import annotations

import os

import pytest


def mutants(full: int) -> int:
    """`full` if WAYMARK_HOSTILE is `full`, else a tenth."""
    return full if os.environ.get("WAYMARK_HOSTILE") == "full" else full // 10


def each_of(full: int) -> pytest.MarkDecorator:
    """Runs a test with `count` mutants: a twentieth of `full`, and slowly with `mutants(full)`."""
    every = pytest.param(mutants(full), marks=pytest.mark.slow, id="more")
    return pytest.mark.parametrize("count", [pytest.param(full // 20, id="few"), every])
