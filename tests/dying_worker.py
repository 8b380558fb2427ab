"""The real worker, killed by the system at the n-th step of one kind: `KIND N` on the command line.

Kinds: `settle` (a layer's rows written in idle work), `spill` (a run copied out of the KV buffer),
`write` (a step that changes the disk, from the second Flush on), `none`. Its disk has room,
whatever the machine's.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from core.cache import kv_buffer
from core.engine import engine, idle_work
from core.storage import files as disk_files
from core.worker import __main__ as worker

PLENTY = disk_files.Space(2**40, 2**40)
DISK_STEPS = ("_create", "_open", "_write", "_sync", "replace", "delete", "commit", "checkpoint")


class Fate:
    """Counts steps once it is armed; the last one is fatal."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.armed = False

    def step(self) -> None:
        self.left -= self.armed
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def on_calls(owner: type, name: str, before: Any) -> None:
    """Have `before` called ahead of every call of a method."""
    real = getattr(owner, name)

    def method(self: Any, *args: Any, **more: Any) -> Any:
        before()
        return real(self, *args, **more)

    setattr(owner, name, method)


def arrange(kind: str, fate: Fate) -> None:
    flushes: list[None] = []

    def arm() -> None:
        fate.armed = True

    def arm_at_second() -> None:
        flushes.append(None)
        fate.armed = len(flushes) > 1

    if kind == "settle":
        on_calls(idle_work.IdlePrefill, "run", arm)
        on_calls(kv_buffer.KVBuffer, "write", fate.step)
    elif kind == "spill":
        arm()
        on_calls(kv_buffer.KVBuffer, "copy_out", fate.step)
    elif kind == "write":
        on_calls(engine.Engine, "flush", arm_at_second)
        for name in DISK_STEPS:
            on_calls(disk_files.Files, name, fate.step)


if __name__ == "__main__":
    setattr(disk_files.Files, "free", lambda self, folder: PLENTY)  # noqa: B010 - a method
    arrange(sys.argv[1], Fate(int(sys.argv[2])))
    worker.main()
