"""Helpers that may open nothing, for mutants to be handed to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from core.helper import process
from core.helper.process import Helper
from tests.hostile.watched_helper import VIOLATION


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every helper of this test is a watched one; the list tells which exit codes they had."""
    ended: list[int] = []
    monkeypatch.setattr(process, "program", _watched_program)
    end = process._Running._why_it_ended

    def why(self: process._Running) -> str:
        reason = end(self)
        ended.append(self._process.poll() or 0)
        return reason

    monkeypatch.setattr(process._Running, "_why_it_ended", why)
    yield ended
    assert VIOLATION not in ended


def _watched_program(module: str, *arguments: str) -> list[str]:
    assert module == "core.helper"
    return [sys.executable, "-P", "-m", "tests.hostile.watched_helper", *arguments]


@pytest.fixture
def helper_of(watched: list[int]) -> Iterator[Callable[[int], Helper]]:
    """Makes helpers with so much memory, and ends them."""
    made: list[Helper] = []

    def make(memory_bytes: int) -> Helper:
        made.append(Helper(memory_bytes))
        return made[-1]

    yield make
    for helper in made:
        helper.close()
