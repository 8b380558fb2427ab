"""A process killed by the system at any statement that SQLite is given leaves a whole store."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from pathlib import Path

import pytest

from core.storage.store import DiskStore
from tests.storage.disks import RoomyFiles, check_whole
from tests.storage.dying import POOL, die_at_statement, name_of, put_chain

# What each chain leaves: three that are needed and the lasting one.
CHAINS = [set(range(first, first + 4)) for first in (0, 10, 20)]


def live(folder: Path, statement: int) -> int | None:
    """Let a process live until a statement; its exit code."""
    how = multiprocessing.get_context("forkserver")
    how.set_forkserver_preload(["tests.storage.dying"])
    process = how.Process(target=die_at_statement, args=(folder, statement))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.skipif(os.name == "nt", reason="a process can't kill itself with SIGKILL there")
def test_D2_M2_a_kill_at_any_of_40_statements_leaves_a_whole_store(tmp_path: Path) -> None:
    assert live(tmp_path / "whole", 0) == 0
    num_statements = int((tmp_path / "whole" / "statements").read_text())
    assert num_statements > 100
    for statement in random.Random(6).sample(range(1, num_statements + 1), 40):
        folder = tmp_path / str(statement)
        assert live(folder, statement) == -signal.SIGKILL
        blobs = DiskStore(folder, 0, RoomyFiles())
        check_whole(blobs)
        held = {number for number in range(30) if blobs.size(POOL, name_of(number))}
        assert all(chain <= held or not chain & held for chain in CHAINS), statement
        for number in held:
            assert blobs.files.read(blobs.path(POOL, name_of(number)), 4) == number.to_bytes(4)
        put_chain(blobs, 40, "four")
        for owner in ("one", "two", "three"):
            blobs.forget(owner)
        check_whole(blobs)
        assert len(list(folder.rglob("*.safetensors"))) == 4
