"""A real process, really killed while it writes: the store opens with all that was done."""

from __future__ import annotations

import multiprocessing
import random
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from core.cache.disk.store import SegmentStore
from tests.cache.disk.worlds import KV, STATE, check_integrity, get, key, open_store
from tests.cache.disk.writer import write_for_ever

Fact = tuple[str, int]


def facts_until_killed(folder: Path, first: int, num_facts: int) -> list[Fact]:
    """Let a writer tell `num_facts` facts, kill it, and return all that it had told by then."""
    if sys.platform == "win32":
        how = multiprocessing.get_context("spawn")
    else:
        how = multiprocessing.get_context("forkserver")
        how.set_forkserver_preload(["tests.cache.disk.writer"])  # imports torch once for all ten
    reader, writer = how.Pipe(duplex=False)
    process = how.Process(target=write_for_ever, args=(folder, first, writer), daemon=True)
    process.start()
    writer.close()
    facts = [reader.recv() for _ in range(num_facts)]
    process.kill()
    process.join()
    facts += rest(reader)
    reader.close()
    return facts


def rest(reader: Connection) -> list[Fact]:
    facts: list[Fact] = []
    while True:
        try:
            facts.append(reader.recv())
        except EOFError:
            return facts


def is_whole(store: SegmentStore, chat: int) -> bool:
    runs = range(3 * chat, 3 * chat + 3)
    return all(get(store, KV, run) for run in runs) and get(store, STATE, runs[-1])


def is_gone(store: SegmentStore, chat: int) -> bool:
    return not any(store.has(KV, key(run)) for run in range(3 * chat, 3 * chat + 3))


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_D2_M2_real_kills_lose_nothing_that_was_done(tmp_path: Path, kills: int) -> None:
    draw = random.Random(10)
    done: set[int] = set()
    for first in range(0, 1_000 * kills, 1_000):
        facts = facts_until_killed(tmp_path, first, draw.randint(1, 15))
        done |= {chat for verb, chat in facts if verb == "wrote"}
        done -= {chat for verb, chat in facts if verb == "forgetting"}
        store = open_store(tmp_path)
        check_integrity(store)
        assert all(is_whole(store, chat) for chat in done)
        assert all(is_gone(store, chat) for verb, chat in facts if verb == "forgot")
        unfinished = max(chat for _, chat in facts) + 1
        assert is_gone(store, unfinished) or is_whole(store, unfinished)
    open_store(tmp_path).forget(None)
    assert not list(tmp_path.rglob("*.safetensors"))
