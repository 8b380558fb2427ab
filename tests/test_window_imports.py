"""The window's process never loads torch: not by any import, however deep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "triton", "safetensors", "transformers", "numpy", "tokenizers")


def modules(package: str) -> list[str]:
    """Every module below a package that can be imported without running a program."""
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize(
    "package", ["core.api", "core.client", "core.remote", "core.server", "desktop"]
)
def test_the_window_never_loads_torch(package: str) -> None:
    found = modules(package)
    assert found
    assert loaded_by(found) == []


def test_replay_and_worker_start_without_torch() -> None:
    # A worker says hello before it spends seconds on that import; replay leaves it to the worker.
    assert loaded_by(["core.replay", "core.worker"]) == []
    # The check would see it.
    assert "torch" in loaded_by(["core.engine.engine"])


def loaded_by(names: list[str]) -> list[str]:
    """Which of HEAVY are in sys.modules after importing `names` in a fresh process."""
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
