"""`llama-bench`, of llama.cpp or of another program that takes the same files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.bench.rounds import Step
from tests.bench.spread import Spread

Program = Literal["llama.cpp", "ik_llama.cpp"]


@dataclass(frozen=True)
class Llama:
    """A program, its column's title, and its file for each precision.

    ik_llama.cpp has another option for generating after a context.
    """

    name: Program
    program: Path
    files: Mapping[str, Path]
    threads: int
    rounds: int

    def measure(self, precision: str, step: Step) -> Spread | None:
        """Tokens a second of a step over the program's own repetitions, None if it lacks the step.
        Raises CalledProcessError when it can't run the file."""
        sizes = self._sizes(step)
        if precision not in self.files or not sizes:
            return None
        command = [str(self.program), "-m", str(self.files[precision]), "-t", str(self.threads)]
        ran = subprocess.run(
            [*command, "-r", str(self.rounds), "-o", "json", *sizes],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (found,) = json.loads(ran.stdout)
        return Spread.of(found["samples_ts"])

    def _sizes(self, step: Step) -> list[str]:
        match step.task:
            case "prompt":
                return ["-p", str(step.size), "-n", "0"]
            case "generate" if self.name == "llama.cpp" or step.context == 0:
                behind = ["-d", str(step.context)] if step.context else []
                return ["-p", "0", "-n", str(step.size), *behind]
            case "generate":
                return ["-p", "0", "-n", "0", "-gp", f"{step.context},{step.size}"]
            case _:
                return []
