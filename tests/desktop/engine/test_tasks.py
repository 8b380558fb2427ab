from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from core.api.errors import ErrorInfo, MissingFileError
from desktop.app import GarbageCollector
from desktop.engine.tasks import Tasks, attempted
from desktop.window_log import kept_log
from tests.desktop.conftest import Loop, until


async def test_an_error_is_said_and_logged_without_its_words(qloop: Loop, tmp_path: Path) -> None:
    said: list[ErrorInfo] = []
    tasks = Tasks(said.append)

    async def named() -> None:
        raise MissingFileError("config.json is missing.")

    async def unexpected() -> None:
        raise KeyError("zanzibar")

    with kept_log(tmp_path / "window.log"):
        tasks.spawn(named(), "Looking")
        tasks.spawn(unexpected(), "Guessing")
        await until(lambda: len(said) == 2)
    assert said[0].title == "A model file is missing"
    assert said[1].message == "Guessing ended with an error (KeyError)."
    logged = (tmp_path / "window.log").read_text()
    assert "Guessing failed: KeyError" in logged and "zanzibar" not in logged
    await tasks.close()


async def test_a_task_is_held_until_it_ends(qloop: Loop) -> None:
    tasks = Tasks(lambda error: None)
    done: list[int] = []

    async def slow() -> None:
        await asyncio.sleep(0.05)
        done.append(1)

    tasks.spawn(slow(), "Slow")
    gc.collect()
    await until(lambda: done)
    await tasks.close()


async def test_closing_ends_all_and_takes_no_more(qloop: Loop) -> None:
    tasks = Tasks(lambda error: None)
    ended: list[int] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    tasks.spawn(forever(), "Forever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == [1]
    assert tasks.spawn(forever(), "Late") is None


async def test_closing_goes_on_after_a_step_that_was_cancelled(qloop: Loop) -> None:
    async def step() -> None:
        raise asyncio.CancelledError

    await attempted("a step", step)


def make_ring() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


def test_collecting_is_left_to_the_windows_thread(qloop: Loop) -> None:
    assert not gc.isenabled()
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own: a library of another test may have raised them
    collector = GarbageCollector()
    gc.set_threshold(*thresholds)
    rings = [make_ring() for _ in range(5_000)]
    del rings
    before = gc.get_count()[0]
    collector.collect_if_due()
    assert gc.get_count()[0] < before
    collector.close()
    gc.disable()
