"""docs/promises.md names every promise's tests, and no others."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    page = (ROOT / "docs" / "promises.md").read_text("utf-8")
    return {row[0]: set(re.findall(r"`([^`]+)`", row[2])) for row in ROW.findall(page)}


def found() -> dict[str, set[str]]:
    files: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        for promise in re.findall(
            r"^\s*(?:async )?def test_([A-Z]\d+)_", path.read_text("utf-8"), re.M
        ):
            files[promise].add(path.relative_to(ROOT).as_posix())
    return files


def test_every_promise_has_its_tests_and_every_test_its_promise() -> None:
    assert listed() == found()
