"""What every step of the trial says, and how it fails."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE_S = 180.0
Found = TypeVar("Found")


class Failed(Exception):
    """What was not as it should be."""


def until(look: Callable[[], Found], what: str) -> Found:
    """What is found there once something is. Raises Failed after some minutes."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        if time.monotonic() > end:
            raise Failed(what)
        time.sleep(0.1)
    return found


def check(holds: bool, what: str) -> None:
    """Raises Failed unless it holds."""
    if not holds:
        raise Failed(what)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """A program that must succeed."""
    subprocess.run([str(word) for word in command], env=env, check=True)
