"""Running a replay within a test: what it prints, as data."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.replay import __main__ as replay


@dataclass(frozen=True)
class Run:
    """Output of one replay."""

    code: int
    lines: list[dict[str, Any]]
    errors: str

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["reply"] is not None]


def run(*arguments: object) -> Run:
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = replay.main([str(argument) for argument in arguments])
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    return Run(code, lines, errors.getvalue())


def play(folder: Path, steps: list[dict[str, Any]], *options: object, **top: Any) -> Run:
    """Write a script into `folder` and run it; replies are greedy and short."""
    sampling = {"temperature": 0, "max_tokens": 4}
    path = folder / "script.json"
    path.write_text(json.dumps({"sampling": sampling, "steps": steps, **top}))
    return run(path, "--device", "cpu", *options)
