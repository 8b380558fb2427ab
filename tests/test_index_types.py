"""mypy --strict really keeps `TokenIndex` and `PositionIndex` apart; see tests/api for Python."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api as mypy_api

ROOT = Path(__file__).parents[1]
MIXED = ROOT / "tests" / "typing_cases" / "mixed_indices.py"
MARK = re.compile(r"# E: (?P<codes>[a-z-]+(?:, [a-z-]+)*)$")
ERROR = re.compile(r"^[^:]+:(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")

Errors = list[tuple[int, str]]


def expected_errors(source: str) -> Errors:
    marks = ((number, MARK.search(line)) for number, line in enumerate(source.splitlines(), 1))
    return sorted(
        (number, code) for number, mark in marks if mark for code in mark["codes"].split(", ")
    )


def reported_errors(path: Path, cache: Path) -> Errors:
    # Only this file is in question; `make check` runs mypy on the rest.
    options = "--strict --no-pretty --no-error-summary --show-error-codes --hide-error-context"
    stdout, stderr, _status = mypy_api.run(
        [
            *options.split(),
            "--follow-imports=silent",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={cache}",
            str(path),
        ]
    )
    assert not stderr
    lines = [line for line in stdout.splitlines() if ": error: " in line]
    errors = [ERROR.match(line) for line in lines]
    assert all(errors), stdout
    return sorted((int(error["line"]), error["code"]) for error in errors if error)


def test_mypy_reports_exactly_the_marked_lines(tmp_path: Path) -> None:
    expected = expected_errors(MIXED.read_text(encoding="utf-8"))
    assert len(expected) > 30  # the marks were really read
    assert reported_errors(MIXED, tmp_path / "cache") == expected
