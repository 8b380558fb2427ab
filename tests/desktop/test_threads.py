from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from desktop.threads import DaemonExecutor, unfinished

PATIENCE_S = 60.0


def test_results_and_errors_come_back() -> None:
    executor = DaemonExecutor("test", 2)
    assert executor.submit(divmod, 7, 2).result(PATIENCE_S) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        executor.submit(divmod, 7, 0).result(PATIENCE_S)
    executor.shutdown()
    with pytest.raises(RuntimeError):
        executor.submit(divmod, 7, 2)


def test_one_thread_keeps_the_order_and_others_work_beside_one_that_hangs() -> None:
    seen: list[int] = []
    one = DaemonExecutor("one", 1)
    jobs = [one.submit(seen.append, at) for at in range(100)]
    jobs[-1].result(PATIENCE_S)
    assert seen == list(range(100))
    hangs = threading.Event()
    several = DaemonExecutor("several", 3)
    before = unfinished()
    stuck = [several.submit(hangs.wait) for _ in range(2)]
    assert several.submit(int, "7").result(PATIENCE_S) == 7
    assert unfinished() - before == 2
    several.shutdown()
    hangs.set()
    assert all(each.result(PATIENCE_S) for each in stuck)
    assert unfinished() == before


def test_a_job_that_is_taken_back_is_not_carried_out() -> None:
    hangs, seen = threading.Event(), list[int]()
    executor = DaemonExecutor("test", 1)
    executor.submit(hangs.wait)
    waits = executor.submit(seen.append, 1)
    assert waits.cancel()
    hangs.set()
    executor.submit(int).result(PATIENCE_S)
    with pytest.raises(CancelledError):
        waits.result()
    assert seen == []
