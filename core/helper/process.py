"""The worker's side of a helper. If it ends, its request fails with a named error, and the next one
starts another."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import psutil

from core import watchdog
from core.api import errors
from core.api.errors import ProtocolError, WaymarkError
from core.api.json_text import parse_json
from core.client.codec import MAX_TASK_BYTES, Fields, frame, read_frame, split
from core.client.programs import ROOT, clean_environment, contain, hidden_window, program

# How often a wait checks for cancellation, and the helper's memory.
GLANCE_S = 0.05
# Processor time is limited inside the helper. By the clock a task may take this much longer, on a
# busy machine; this limit also ends a helper that was stopped or hangs.
PATIENCE = 4.0
START_S = 10.0
# Written at once: less than any system's pipe holds, so the write never waits for the helper.
_SMALL_BYTES = 4_096
# A pipe's capacity on Linux: a picture's file is sent in a few pieces.
_PIPE_BYTES = 2**20
# Each thread of a pool would take address space.
_ONE_THREAD = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_NAMED: dict[str, type[WaymarkError]] = {
    kind.__name__: kind
    for kind in (
        errors.BrokenTokenizerError,
        errors.DocumentTooLargeError,
        errors.DocumentUnreadableError,
        errors.ImageEmptyError,
        errors.ImageTooLargeError,
        errors.ImageUnreadableError,
        errors.NotAnExportError,
        errors.TemplateError,
        errors.TemplateTooLargeError,
    )
}
"""The errors that a task may raise by name; no others are believed."""


class HelperFailedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Helper:
    """Calls come from any thread."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._check: Callable[[], None] | None = None

    @property
    def pid(self) -> int | None:
        """State of another process is gone."""
        running = self._running
        return running.pid if running is not None and running.alive else None

    def start(self) -> None:
        """On Linux the process ends with the calling thread. Raises HelperFailedError."""
        if self.pid is None:
            self.close()
            self._running = _Running(self._memory_bytes)

    @contextlib.contextmanager
    def checking(self, check: Callable[[], None] | None) -> Iterator[None]:
        self._check = check
        try:
            yield
        finally:
            self._check = None

    def ask(
        self,
        task: str,
        fields: Fields,
        attached: bytes = b"",
        *,
        seconds: float,
        check: Callable[[], None] | None = None,
    ) -> tuple[Fields, bytes]:
        """`seconds` are processor time.

        Raises the task's error if `_NAMED` lists it, else HelperFailedError; and what `check`
        raises, which ends the helper.
        """
        check = check or self._check
        body = json.dumps({**fields, "task": task, "seconds": seconds}).encode()
        try:
            message = frame(body, attached, MAX_TASK_BYTES)
        except ProtocolError as error:
            raise HelperFailedError("memory") from error
        with self._turn(check):
            self.start()
            assert self._running is not None
            try:
                body = self._running.exchange(message, seconds, check)
                fields, answer = _parsed(body)
                name = fields.get("error")
                if name is None:
                    return fields, answer
                if name not in _NAMED:
                    raise HelperFailedError("memory" if name == "MemoryError" else "raised")
            except BaseException:
                # Also when cancelled: the pending answer would be taken for the next one's.
                self.close()
                raise
        raise _NAMED[name](str(fields.get("message", "")))

    def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()

    @contextlib.contextmanager
    def _turn(self, check: Callable[[], None] | None) -> Iterator[None]:
        while not self._lock.acquire(timeout=GLANCE_S):
            if check is not None:
                check()
        try:
            yield
        finally:
            self._lock.release()


class _Running:
    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        try:
            process = subprocess.Popen(
                program("core.helper", str(memory_bytes)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={**clean_environment(), **_ONE_THREAD},
                creationflags=hidden_window(),
            )
        except OSError as error:
            raise HelperFailedError("started") from error
        _widen(process)
        self._job = contain(process.pid, memory_bytes)
        self._process = process
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._listener = threading.Thread(
            target=_listen, args=(process, self._answers), name="helper", daemon=True
        )
        self._listener.start()
        # Also at the interpreter's exit, and before Popen is freed while its child is alive.
        self.end = weakref.finalize(self, _end, process, self._listener)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def exchange(self, message: bytes, seconds: float, check: Callable[[], None] | None) -> bytes:
        if len(message) <= _SMALL_BYTES:
            _write(self._process, message)
        else:
            threading.Thread(target=_write, args=(self._process, message), daemon=True).start()
        deadline = time.monotonic() + START_S + PATIENCE * seconds
        while True:
            try:
                answer = self._answers.get(timeout=GLANCE_S)
            except queue.Empty:
                self._glance(deadline, check)
                continue
            if answer is None:
                raise HelperFailedError(self._why_it_ended())
            return answer

    def _glance(self, deadline: float, check: Callable[[], None] | None) -> None:
        if check is not None:
            check()
        if time.monotonic() > deadline:
            raise HelperFailedError("time")
        # This wait ends by itself, so the watchdog of this process must not end it.
        watchdog.report_progress()
        with contextlib.suppress(psutil.Error):
            if self._resident() > self._memory_bytes:
                raise HelperFailedError("memory")

    def _resident(self) -> int:
        """On Windows a virtual environment's Python is a child of the process."""
        process = psutil.Process(self.pid)
        held = [process, *(process.children() if sys.platform == "win32" else ())]
        return sum(int(each.memory_info().rss) for each in held)

    def _why_it_ended(self) -> str:
        # One whose answer was garbage may still be alive.
        with contextlib.suppress(subprocess.TimeoutExpired):
            ended = self._process.wait(GLANCE_S)
            if sys.platform != "win32" and ended == -signal.SIGPROF:
                return "time"
        return "ended"


def _widen(process: subprocess.Popen[bytes]) -> None:
    """Makes large files faster."""
    if sys.platform == "linux":
        import fcntl

        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                fcntl.fcntl(cast(BinaryIO, pipe), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _listen(process: subprocess.Popen[bytes], answers: queue.SimpleQueue[bytes | None]) -> None:
    answered = cast(BinaryIO, process.stdout)
    with contextlib.suppress(OSError, ValueError, ProtocolError):
        while (body := read_frame(answered, MAX_TASK_BYTES)) is not None:
            answers.put(body)
    answers.put(None)


def _write(process: subprocess.Popen[bytes], message: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        process.stdin.write(message)
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes], listener: threading.Thread) -> None:
    process.kill()
    process.wait()
    listener.join()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            assert pipe is not None
            pipe.close()


def _parsed(body: bytes) -> tuple[Fields, bytes]:
    text, attached = split(body)
    try:
        fields = parse_json(text)
    except ValueError as error:
        raise HelperFailedError("ended") from error
    if not isinstance(fields, dict):
        raise HelperFailedError("ended")
    return fields, attached
