"""llama-bench beside the rest, where it is on the PATH and somebody gives it a file to run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.rounds import Plan, Step
from tests.bench.spread import Spread

PROGRAM = "llama-bench"


def is_there() -> bool:
    """Whether the program is on the PATH."""
    return shutil.which(PROGRAM) is not None


def measure(file: Path, plan: Plan, threads: int) -> dict[Step, Spread]:
    """Tokens a second of the plan's prompts and contexts, over llama-bench's own repetitions.

    Raises CalledProcessError when it can't run `file`.
    """
    common = ["-m", str(file), "-t", str(threads), "-r", str(plan.rounds), "-o", "json"]
    prompts = _run([*common, "-p", _listed(plan.prompts), "-n", "0"])
    replies = _run([*common, "-p", "0", "-n", str(plan.tokens), "-d", _listed(plan.contexts)])
    found = {Step("prompt", each["n_prompt"]): each for each in prompts}
    found |= {Step("generate", each["n_gen"], each["n_depth"]): each for each in replies}
    return {step: Spread.of(each["samples_ts"]) for step, each in found.items()}


def _run(arguments: Sequence[str]) -> list[dict[str, Any]]:
    ran = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True)
    made: list[dict[str, Any]] = json.loads(ran.stdout)
    return made


def _listed(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
