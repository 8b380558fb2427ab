from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.desktop.conftest import Loop, until
from tests.desktop.loop_watch import LoopWatch


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_small_steps_waiting_and_other_threads_are_no_block(qloop: Loop) -> None:
    with LoopWatch() as watch:
        for _ in range(30):
            work(0.01)
            await asyncio.sleep(0)
        await asyncio.sleep(0.3)
        thread = threading.Thread(target=work, args=(0.3,))
        thread.start()
        await until(lambda: not thread.is_alive())
    assert 0.01 <= watch.longest < 0.1 and watch.longest_elsewhere < 0.1
    assert watch.turns >= 30


async def test_work_in_one_step_is_a_block(qloop: Loop) -> None:
    async def count() -> None:
        with LoopWatch() as watch:
            watch.doing = "counting"
            work(0.15)
            await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="during 'counting'"):
        await count()


async def test_a_thread_that_is_waited_for_is_a_block(qloop: Loop) -> None:
    async def wait() -> None:
        with LoopWatch():
            thread = threading.Thread(target=work, args=(0.5,))
            thread.start()
            thread.join()
            await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="other threads took"):
        await wait()


async def test_a_call_that_takes_ever_so_long_is_a_block(
    qloop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.desktop.loop_watch.LONGEST_WALL_S", 0.2)

    async def sleep() -> None:
        with LoopWatch():
            time.sleep(0.3)  # noqa: ASYNC251 - what must not be done is done
            await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="went by"):
        await sleep()
