"""The scripts of tests/bench about drafts, run with the demo model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench.folders import DEMO
from tests.kernels.native.here import NEEDS_COMPILER
from tests.replays import Run, run

pytestmark = NEEDS_COMPILER

SCRIPTS = Path(__file__).parents[1] / "bench"
DRAFTS = ("--draft", "both", "--draft-tokens", "4", "--draft-noise", "0.3")


@pytest.fixture(autouse=True)
def _scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the context after each step."""
    monkeypatch.setenv("WAYMARK_DEBUG", "integrity")


def played(script: str, *options: str) -> Run:
    return run(SCRIPTS / script, "--model", DEMO, "--dtype", "int8", "--context", "1024", *options)


def replies(found: Run) -> list[Any]:
    assert found.code == 0, found.errors
    return [(line["reply_ids"], line["finish_reason"]) for line in found.lines]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["drafts.json", "stress.json"])
def test_P1_replies_of_a_script_are_the_same_with_drafts(script: str) -> None:
    plain, drafted = played(script, "--draft", "off"), played(script, *DRAFTS)
    assert replies(plain) == replies(drafted)
    counts = [line["draft"] for line in drafted.answers]
    assert sum(each["accepted"] for each in counts) > 0 < sum(each["rejected"] for each in counts)
    assert all(line["draft"] is None for line in plain.lines)


@pytest.mark.slow
def test_P2_the_scan_finds_what_is_not_rolled_back() -> None:
    wrong = ("--draft", "lookup", "--draft-tokens", "4", "--draft-noise", "1")
    found = played("kv_scan.json", *wrong, "--skip-rollback")
    assert found.code == 1
    # Errors name their place and no words: it is the scan's.
    assert found.lines[0]["error"]["message"].startswith("AssertionError at debug.py:")
    assert played("kv_scan.json", *wrong).code == 0
