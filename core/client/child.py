"""A child process that exchanges frames with this one over its pipes, as both sides see it.

The parent starts it when it is needed first; it ends when its input closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Generic

from pydantic import BaseModel, TypeAdapter

from core.api.errors import EngineDiedError, ProtocolError, WaymarkError
from core.client.codec import HEADER, Message, body_length, decode, encode, read_frame
from core.client.programs import ROOT, clean_environment, contain, hidden_window
from core.client.traces import print_trace
from core.system.private_files import open_or_create

STOP_PATIENCE_S = 4.0


class Child(Generic[Message]):
    """The parent's side: `heard` gets the child's messages in order, `ended` is called when it is
    gone. The next `start` starts another."""

    def __init__(
        self,
        command: Sequence[str],
        messages: TypeAdapter[Message],
        heard: Callable[[Message], None],
        ended: Callable[[], None],
        log_file: Path | None = None,
    ) -> None:
        self._command, self._messages = command, messages
        self._heard, self._ended = heard, ended
        self._log_file = log_file
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._job: object | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, first: BaseModel) -> None:
        """Start the process and send it its first message, unless it runs. Raises
        EngineDiedError."""
        async with self._starting:
            if self._process is not None:
                return
            log = self._opened_log()
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    cwd=ROOT,
                    env=clean_environment(),
                    creationflags=hidden_window(),
                )
            except OSError as error:
                raise EngineDiedError(f"A process could not be started: {error}.") from error
            finally:
                if log != subprocess.DEVNULL:
                    os.close(log)
            self._process = process
            self._job = contain(process.pid)
            self._listening = asyncio.ensure_future(self._listen(process))
            await self.send(first)

    async def send(self, message: BaseModel) -> None:
        """Raises EngineDiedError if the process doesn't run any more."""
        process = self._process
        if process is None or process.stdin is None:
            raise EngineDiedError("The process has ended.")
        try:
            process.stdin.write(encode(message))
            await process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise EngineDiedError("The process has ended.") from error

    async def started(self) -> bool:
        """Wait for a start in progress; True if the process runs."""
        async with self._starting:
            return self._process is not None

    async def close(self) -> None:
        """End the process, even one that is starting. Idempotent."""
        async with self._starting:
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_PATIENCE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if self._listening is not None:
            await self._listening

    def _opened_log(self) -> int:
        if self._log_file is not None:
            with contextlib.suppress(OSError):
                return open_or_create(self._log_file, os.O_WRONLY | os.O_TRUNC)
        return subprocess.DEVNULL

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                header = await process.stdout.readexactly(HEADER.size)
                body = await process.stdout.readexactly(body_length(header))
                self._heard(decode(self._messages, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except ProtocolError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        self._process = None
        self._ended()


def own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """In the child: its input and its output, taken before any library can print into them."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), output


async def incoming(stream: BinaryIO, messages: TypeAdapter[Message]) -> AsyncIterator[Message]:
    """In the child: the parent's messages, until its input ends."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[Message | None]()

    def listen() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            try:
                while (body := read_frame(stream)) is not None:
                    loop.call_soon_threadsafe(waiting.put_nowait, decode(messages, body))
            except (OSError, WaymarkError) as error:
                print_trace(error)
            loop.call_soon_threadsafe(waiting.put_nowait, None)

    threading.Thread(target=listen, name="commands", daemon=True).start()
    while (message := await waiting.get()) is not None:
        yield message
