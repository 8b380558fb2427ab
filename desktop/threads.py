"""An executor of daemon threads: Python joins a `ThreadPoolExecutor` at exit, so a read from a dead
mount would keep the process alive."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Job = tuple[Future[Any], Callable[[], Any]]


class DaemonExecutor(Executor):
    """At most `most` threads, started when needed."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._threads = 0
        self._open_jobs = 0
        self._closed = False
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        _executors.add(self)

    @property
    def open_jobs(self) -> int:
        return self._open_jobs

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads of {self._name} have ended")
            self._open_jobs += 1
            self._jobs.put((future, partial(work, *args, **kwargs)))
            if self._threads < min(self._open_jobs, self._most):
                self._threads += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new jobs. Submitted ones still run, and are never waited for."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._carry_out(*job)
            del job  # frees its result

    def _carry_out(self, future: Future[T], work: Callable[[], T]) -> None:
        wanted = future.set_running_or_notify_cancel()
        try:
            result = work() if wanted else None
        except BaseException as error:
            self._end_one()
            future.set_exception(error)
        else:
            self._end_one()
            if wanted:
                future.set_result(result)  # type: ignore[arg-type]

    def _end_one(self) -> None:
        with self._lock:
            self._open_jobs -= 1


_executors: weakref.WeakSet[DaemonExecutor] = weakref.WeakSet()


def unfinished() -> int:
    return sum(executor.open_jobs for executor in list(_executors))
