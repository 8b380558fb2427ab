"""A process that kills itself at the n-th statement that SQLite is given."""

from __future__ import annotations

import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

from core.storage.rows import Blob
from core.storage.store import DiskStore
from tests.storage.disks import PLENTY, RoomyFiles

POOL = "cd" * 32


def name_of(number: int) -> str:
    return f"kv-{number:064x}.safetensors"


def put_chain(blobs: DiskStore, first: int, owner: str) -> None:
    """Put two that need each other, and a lasting one with another, that needs all three."""
    for number in range(first, first + 2):
        needs = (name_of(number - 1),) if number > first else ()
        blob = Blob(POOL, name_of(number), 4, needs, False, [owner])
        assert blobs.put(blob, [number.to_bytes(4)], PLENTY)
    other, last = first + 2, first + 3
    part = Blob(POOL, name_of(other), 4, (name_of(first),), False, ())
    blob = Blob(POOL, name_of(last), 4, (name_of(first + 1), name_of(other)), True, [owner])
    before = [(part, [other.to_bytes(4)])]
    assert blobs.put(blob, [last.to_bytes(4)], PLENTY, before)


def die_at_statement(folder: Path, statement: int) -> None:
    """Write, own, evict, note and forget; killed by the system at a statement, 0 for none."""
    left = statement
    real = sqlite3.connect

    def traced(*args: Any, **more: Any) -> sqlite3.Connection:
        def step(text: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        connection: sqlite3.Connection = real(*args, **more)
        connection.set_trace_callback(step)
        return connection

    setattr(sqlite3, "connect", traced)  # noqa: B010 - a function
    blobs = DiskStore(folder, 0, RoomyFiles())
    put_chain(blobs, 0, "one")
    put_chain(blobs, 10, "two")
    blobs.own("two", POOL, [name_of(3)])
    put_chain(blobs, 20, "three")
    blobs.touch(POOL, name_of(3))
    blobs.shrink(POOL, 32)
    blobs.write_note("kind", "key", "value")
    blobs.forget("one")
    blobs.lose(POOL, name_of(22))
    blobs.forget("two")
    (folder / "statements").write_text(f"{-left}")
