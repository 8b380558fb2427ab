"""Running a compiler, or what it made, within limits: time, cancelling, and all that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

_GLANCE_S = 0.05
_LONGEST_REASON = 400
# Windows would open a console beside the window.
_NO_CONSOLE = 0x08000000 if sys.platform == "win32" else 0


class RunError(Exception):
    """Why a program was of no use, for a person to read."""


class DiedError(RunError):
    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def run(
    command: list[str], folder: Path, deadline: float, check: Callable[[], None] | None = None
) -> None:
    """Run a program in `folder` until `deadline` (time.monotonic).

    In a session of its own, so that what it starts ends with it; it may say anything in any
    language, writes its temporary files into `folder`, and must not read what our own input is
    for. `check` is asked meanwhile and may raise. Raises RunError.
    """
    said = folder / "said"
    try:
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                creationflags=_NO_CONSOLE,
            )
    except OSError as error:
        raise RunError(f"{command[0]} could not be run: {error}") from error
    try:
        _wait(process, command[0], deadline, check)
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        words = said.read_bytes().decode(errors="replace").strip()
        reason = words[-_LONGEST_REASON:] or f"nothing, and ended with {process.returncode}"
        raise DiedError(f"{command[0]} said: {reason}", process.returncode)


def _wait(
    process: subprocess.Popen[bytes],
    name: str,
    deadline: float,
    check: Callable[[], None] | None,
) -> None:
    while True:
        try:
            process.wait(_GLANCE_S)
        except subprocess.TimeoutExpired:
            if check is not None:
                check()
            if time.monotonic() > deadline:
                raise RunError(f"{name} did not end, so it was ended") from None
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all it started, those in sessions of their own too."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        started = []
    ends: list[Callable[[], None]] = [partial(_end_group, process)]
    for end in (*ends, *(each.kill for each in started)):
        try:
            end()
        except (OSError, psutil.Error):
            continue  # it ended by itself meanwhile
    process.wait()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()  # what it started goes one by one
    else:
        os.killpg(process.pid, signal.SIGKILL)
