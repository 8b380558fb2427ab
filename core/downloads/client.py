"""The window's side of the process of downloads: started when it is needed first, ended by `close`.

A process that dies ends its downloads with a named error; the next request starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel

from core.api.errors import EngineDiedError, ErrorInfo, ProtocolError, WaymarkError
from core.client.codec import HEADER, body_length, decode, encode
from core.client.programs import ROOT, clean_environment, contain, hidden_window, program
from core.client.requests import EngineError
from core.downloads.messages import (
    EVENTS,
    Completed,
    Configure,
    Connection,
    DownloadEvent,
    Fetch,
    Found,
    Look,
    Pause,
    Paused,
    Progress,
    Refused,
    Repository,
    Search,
    Stopped,
)
from core.system.private_files import open_or_create

DownloadNews = Progress | Paused | Stopped | Completed
STOP_PATIENCE_S = 3.0


def _died() -> EngineDiedError:
    words = "The process of downloads ended. What has arrived is kept."
    return EngineDiedError(words, "The download stopped")


class DownloadsClient:
    """`heard` is called with the events of all downloads, in their order."""

    def __init__(
        self,
        heard: Callable[[DownloadNews], None],
        log_file: Path | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._heard, self._log_file = heard, log_file
        self._command = command or program("core.downloads")
        self._connection = Connection()
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._job: object | None = None
        self._asked: dict[int, asyncio.Future[tuple[Repository, ...]]] = {}
        self._fetching: set[str] = set()
        self._last = 0
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def configure(self, connection: Connection) -> None:
        """Use another connection, from the next request on."""
        if connection == self._connection:
            return
        self._connection = connection
        if self._process is not None:
            await self._send(Configure(connection=connection))

    async def search(self, text: str) -> tuple[Repository, ...]:
        """Repositories that Waymark runs. Raises WaymarkError."""
        return await self._ask(lambda number: Search(request=number, text=text))

    async def look(self, repository: str) -> Repository:
        """A repository with its files. Raises WaymarkError."""
        (found,) = await self._ask(lambda number: Look(request=number, repository=repository))
        return found

    async def fetch(self, work: Path) -> None:
        """Start or resume a download. Raises EngineDiedError."""
        await self._start()
        self._fetching.add(str(work))
        await self._send(Fetch(work=str(work)))

    async def pause(self, work: Path) -> None:
        # After the request to fetch, which waits for the process.
        async with self._starting:
            pass
        if self._process is not None:
            await self._send(Pause(work=str(work)))

    async def close(self) -> None:
        """End the process, even one that is starting; what has arrived is kept. Idempotent."""
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

    async def _ask(self, command: Callable[[int], BaseModel]) -> tuple[Repository, ...]:
        await self._start()
        self._last += 1
        number = self._last
        answer: asyncio.Future[tuple[Repository, ...]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self._send(command(number))
            return await answer
        finally:
            self._asked.pop(number, None)

    async def _start(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            log = self._opened_log()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    cwd=ROOT,
                    env=clean_environment(),
                    creationflags=hidden_window(),
                )
            except OSError as error:
                raise EngineDiedError(f"Downloads could not be started: {error}.") from error
            finally:
                if log != subprocess.DEVNULL:
                    os.close(log)
            self._job = contain(self._process.pid)
            self._listening = asyncio.ensure_future(self._listen(self._process))
            await self._send(Configure(connection=self._connection))

    def _opened_log(self) -> int:
        if self._log_file is not None:
            with contextlib.suppress(OSError):
                return open_or_create(self._log_file, os.O_WRONLY | os.O_TRUNC)
        return subprocess.DEVNULL

    async def _send(self, command: BaseModel) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise _died()
        try:
            process.stdin.write(encode(command))
            await process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise _died() from error

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                header = await process.stdout.readexactly(HEADER.size)
                body = await process.stdout.readexactly(body_length(header))
                self._take(decode(EVENTS, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except ProtocolError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        self._process = None
        self._end_all(_died())

    def _take(self, event: DownloadEvent) -> None:
        match event:
            case Found():
                self._answer(event.request, event.repositories)
            case Refused():
                self._answer(event.request, event.error)
            case Progress():
                self._heard(event)
            case _:
                self._fetching.discard(event.work)
                self._heard(event)

    def _answer(self, number: int, answer: tuple[Repository, ...] | ErrorInfo) -> None:
        waiting = self._asked.get(number)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, ErrorInfo):
            waiting.set_exception(EngineError(answer))
        else:
            waiting.set_result(answer)

    def _end_all(self, error: WaymarkError) -> None:
        for number in list(self._asked):
            self._answer(number, error.info())
        fetching, self._fetching = self._fetching, set()
        for work in sorted(fetching):
            self._heard(Stopped(work=work, error=error.info()))
