"""`python -m core.downloads`: commands on standard input, events on standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from core.api.errors import InternalError, WaymarkError
from core.client.child import run_child
from core.client.traces import print_trace
from core.downloads.download import Download
from core.downloads.hub import Hub, TryAgainError, look, search, unreachable
from core.downloads.jobs import read
from core.downloads.messages import (
    COMMANDS,
    Completed,
    Configure,
    Connection,
    DownloadCommand,
    Fetch,
    Found,
    Look,
    Pause,
    Paused,
    Refused,
    Repository,
    Search,
    Stopped,
)
from core.downloads.transfer import PATIENT, Patience

# A search is repeated once at most: the user waits for it.
QUICK_ATTEMPTS = 2


class Service:
    """Requests nothing before the first `Configure`, or after one that can't be used."""

    def __init__(self, emit: Callable[[BaseModel], None], patience: Patience = PATIENT) -> None:
        self._emit, self._patience = emit, patience
        self._connected: Hub | None = None
        self._trouble: WaymarkError = InternalError("No connection is configured.")
        self._fetching: dict[str, asyncio.Task[Path]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def take(self, command: DownloadCommand) -> None:
        match command:
            case Configure():
                await self._configure(command.connection)
            case Search():
                self._ask(command.request, lambda: search(self._hub(), command.text))
            case Look():
                self._ask(command.request, lambda: self._look(command.repository))
            case Fetch() if command.work not in self._fetching:
                task = asyncio.ensure_future(self._fetch(command.work))
                self._fetching[command.work] = task
                task.add_done_callback(partial(self._ended, command.work))
            case Pause() if command.work in self._fetching:
                self._fetching[command.work].cancel()
            case _:
                pass

    async def close(self) -> None:
        tasks = [*self._fetching.values(), *self._asking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connected is not None:
            await self._connected.close()

    def _hub(self) -> Hub:
        if self._connected is None:
            raise self._trouble
        return self._connected

    async def _configure(self, connection: Connection) -> None:
        before, self._connected = self._connected, None
        try:
            self._connected = Hub(connection, self._patience.stall_s)
        except WaymarkError as error:
            self._trouble = error
        # Transfers notice, and go on with the new connection.
        if before is not None:
            await before.close()

    async def _look(self, name: str) -> tuple[Repository, ...]:
        return (await look(self._hub(), name),)

    def _ask(self, request: int, ask: Callable[[], Awaitable[tuple[Repository, ...]]]) -> None:
        task = asyncio.ensure_future(self._answer(request, ask))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(
        self, request: int, ask: Callable[[], Awaitable[tuple[Repository, ...]]]
    ) -> None:
        try:
            found = await self._patiently(ask)
            self._emit(Found(request=request, repositories=found))
        except Exception as error:
            self._emit(Refused(request=request, error=_named(error).info()))

    async def _patiently(
        self, ask: Callable[[], Awaitable[tuple[Repository, ...]]]
    ) -> tuple[Repository, ...]:
        for attempt in range(1, QUICK_ATTEMPTS + 1):
            try:
                return await ask()
            except TryAgainError as failure:
                if attempt == QUICK_ATTEMPTS:
                    raise unreachable(failure) from failure
                await asyncio.sleep(self._patience.pause_s(attempt))
        raise AssertionError("the last attempt returns or raises")

    async def _fetch(self, work: str) -> Path:
        return await Download(read(Path(work)), self._hub, self._emit, self._patience).run()

    def _ended(self, work: str, task: asyncio.Task[Path]) -> None:
        """Not a part of the task: one that is cancelled at once never runs."""
        del self._fetching[work]
        if task.cancelled():
            self._emit(Paused(work=work))
        elif (error := task.exception()) is not None:
            self._emit(Stopped(work=work, error=_named(error).info()))
        else:
            self._emit(Completed(work=work, path=str(task.result())))


def _named(error: BaseException) -> WaymarkError:
    if isinstance(error, WaymarkError):
        return error
    print_trace(error)
    return InternalError(f"An unexpected error occurred ({type(error).__name__}).")


def main() -> None:
    run_child(Service, COMMANDS)


if __name__ == "__main__":
    main()
