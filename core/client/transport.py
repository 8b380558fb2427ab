"""A child process over pipes; its standard error goes to a log file and partly to memory."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Generic

from pydantic import BaseModel, TypeAdapter

from core.api.errors import EngineDiedError
from core.client.codec import HEADER, Message, body_length, decode, encode
from core.client.programs import ROOT, clean_environment, contain, hidden_window, program
from core.system.private_files import open_or_create

KEPT_ERROR_LINES = 40
LOG_LIMIT_BYTES = 4 * 2**20


def default_command() -> list[str]:
    return program("core.worker")


# A thread spins before it sleeps, waiting for the others' part of a product. When another program
# uses one of two cores, a step takes five times as long with libgomp's 300,000 rounds, three times
# with these, which cost 7 % when none does.
_SPINNING = {"GOMP_SPINCOUNT": "20000"}
_SPINNING_CHOSEN = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
# By default glibc returns an activation's pages as soon as it is freed, and the next one waits for
# the system to clear new ones: a picture of 1,024 by 1,024 took 1.28 times as long. The engine
# returns free memory after each request (core.engine.engine).
# Torch allocates blocks aligned to 64 bytes, cut out of larger ones. Up to glibc 2.38 (its bug
# 30723) the slivers go into each thread's cache of small blocks and fragment the free memory: 13 to
# 20 MiB more after a prompt. Without those caches nothing was measurably slower.
_ALLOCATOR = "GLIBC_TUNABLES"
_KEEPING = {
    _ALLOCATOR: f"glibc.malloc.mmap_threshold={64 * 2**20}:glibc.malloc.trim_threshold={2**28}"
    ":glibc.malloc.tcache_count=0"
}
# NVIDIA's condition for products that are equal to the bit in any stream: unshared workspaces.
_REPEATING = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def worker_environment() -> dict[str, str]:
    waiting = {} if any(name in os.environ for name in _SPINNING_CHOSEN) else _SPINNING
    keeping = {} if _ALLOCATOR in os.environ else _KEEPING
    return {**clean_environment(), **waiting, **keeping, **_REPEATING}


class Transport(Generic[Message]):
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: BinaryIO | None,
        events: TypeAdapter[Message],
    ) -> None:
        self._process, self._log, self._events = process, log, events
        self._job: object | None = None
        self._errors: collections.deque[str] = collections.deque(maxlen=KEPT_ERROR_LINES)
        self._drain = asyncio.ensure_future(self._keep_errors())

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        log_file: Path | None,
        events: TypeAdapter[Message],
        environment: Mapping[str, str] | None = None,
        failed: str = "A process could not be started: {}.",
    ) -> Transport[Message]:
        """Raises EngineDiedError with the message `failed`, which gets the reason."""
        log = _open_log(log_file)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=ROOT,
                env=clean_environment() if environment is None else environment,
                creationflags=hidden_window(),
            )
        except OSError as error:
            if log is not None:
                log.close()
            raise EngineDiedError(failed.format(error)) from error
        transport = cls(process, log, events)
        transport._job = contain(process.pid)
        return transport

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, command: BaseModel) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(command))
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise EngineDiedError("The process no longer accepts commands.") from error

    async def receive(self) -> Message | None:
        assert self._process.stdout is not None
        try:
            header = await self._process.stdout.readexactly(HEADER.size)
            body = await self._process.stdout.readexactly(body_length(header))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return decode(self._events, body)

    async def stop(self, patience_s: float) -> None:
        """Close its input, wait, then kill. Idempotent."""
        self.close_input()
        # asyncio also waits for the pipes to end, and a full one that nobody reads never does.
        discard = asyncio.ensure_future(self._discard_events())
        try:
            await asyncio.wait_for(self._process.wait(), patience_s)
        except TimeoutError:
            self.kill()
            # A grandchild may hold a pipe open, so this wait has a bound as well.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), patience_s)
        finally:
            discard.cancel()
        await self._finish_errors()
        self.close_pipes()

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def describe_end(self) -> str:
        sentence = _describe_exit(self._process.returncode)
        # Log lines about requests are JSON, and not for a dialog.
        words = (line for line in reversed(self._errors) if line.strip() and line[0] != "{")
        last = next(words, "")
        return f"{sentence} Its last output: {last.strip()[:300]}" if last else sentence

    async def _discard_events(self) -> None:
        assert self._process.stdout is not None
        # RuntimeError: another reader is about to end, and will see the end itself.
        with contextlib.suppress(ConnectionError, RuntimeError):
            while await self._process.stdout.read(65_536):
                pass

    async def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        pending = b""
        while chunk := await self._process.stderr.read(65_536):
            self._write_log(chunk)
            # A line may be endless; only its end matters.
            *lines, pending = (pending[-65_536:] + chunk).split(b"\n")
            self._errors.extend(line.decode(errors="replace") for line in lines)
        self._errors.append(pending.decode(errors="replace"))

    def _write_log(self, chunk: bytes) -> None:
        """Ignores a full disk: unread output blocks the worker."""
        if self._log is None:
            return
        try:
            self._log.write(chunk)
        except OSError:
            self._log.close()
            self._log = None

    def close_pipes(self) -> None:
        # asyncio closes a pipe only at its end, which a cancelled stop, or a loop that ends first,
        # never reaches; it has no public way to close one.
        transport: asyncio.SubprocessTransport | None = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    async def _finish_errors(self) -> None:
        # A grandchild may hold the pipe open, so the wait has a bound.
        with contextlib.suppress(asyncio.TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._drain, 1.0)
        if self._log is not None:
            self._log.close()
            self._log = None


def _open_log(log_file: Path | None) -> BinaryIO | None:
    if log_file is None:
        return None
    try:
        if log_file.exists() and log_file.stat().st_size > LOG_LIMIT_BYTES:
            log_file.replace(log_file.with_suffix(".old.log"))
        # Unbuffered, so that a dying worker's last output is in it.
        handle = open_or_create(log_file, os.O_WRONLY | os.O_APPEND)
        return os.fdopen(handle, "ab", buffering=0)
    except OSError:
        return None  # an engine without a log is better than none


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "The engine closed its output."
    if code >= 0:
        return f"The engine ended with exit code {code}."
    if -code == signal.SIGKILL.value if sys.platform != "win32" else False:
        return "The engine was killed (SIGKILL): usually because the system ran out of memory."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"The engine crashed ({name})."
