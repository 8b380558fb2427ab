"""`python -m core.downloads`: commands on standard input, events on standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from core.api.errors import (
    DiskFullError,
    DownloadFolderError,
    InternalError,
    NotRegularFileError,
    WaymarkError,
)
from core.api.events import Failed
from core.client.child import named, run_child
from core.downloads.hub import Hub, TryAgainError, look, search, unreachable
from core.downloads.jobs import Job, claimed, free_bytes, in_the_way, publish, read
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
    Progress,
    Repository,
    Search,
    Stopped,
)
from core.downloads.parts import PartFile
from core.downloads.transfer import PATIENT, Meter, Patience, Transfer
from core.system.private_files import RESERVE_BYTES

FILES_AT_ONCE = 4
TELL_EVERY_S = 0.5
LOOK_AGAIN_S = 1.0


class Download:
    def __init__(
        self,
        job: Job,
        hub: Callable[[], Hub],
        tell: Callable[[Progress], None],
        patience: Patience = PATIENT,
    ) -> None:
        self._job, self._hub, self._tell, self._patience = job, hub, tell, patience
        self._parts: list[PartFile] = []
        # Those whose file is already in its place.
        self._placed: set[str] = set()
        self._transfers: list[Transfer] = []
        self._meter = Meter()
        self._elsewhere = False

    async def run(self) -> Path:
        """Returns the model's path. Raises WaymarkError."""
        # Before anything is told, or it would seem lost until it is checked.
        self._parts = await asyncio.to_thread(self._read_journals)
        telling = asyncio.ensure_future(self._keep_telling())
        try:
            while True:
                with claimed(self._job) as ours:
                    if ours:
                        return await self._run()
                # Another Waymark is at it: when it is complete this one is too, and when that
                # process dies this one goes on.
                self._elsewhere = True
                await asyncio.sleep(LOOK_AGAIN_S)
                self._parts = await asyncio.to_thread(self._read_journals)
        finally:
            telling.cancel()
            for part in self._parts:
                part.stop()

    async def _run(self) -> Path:
        self._elsewhere = False
        await asyncio.to_thread(self._look_around)
        self._check_space()
        missing = [part for part in self._parts if part.file.path not in self._placed]
        await self._fetch(missing)
        await self._publish(missing)
        return self._job.model

    def _read_journals(self) -> list[PartFile]:
        parts = self._job.parts()
        for part in parts:
            part.read_journal()
        return parts

    def _look_around(self) -> None:
        for part in self._parts:
            place = self._job.place(part.file.path)
            try:
                if part.has_digest(place):
                    self._placed.add(part.file.path)
                else:
                    raise in_the_way(place)
            except FileNotFoundError:
                if part.pieces:
                    part.check()
            except (OSError, NotRegularFileError) as error:
                raise DownloadFolderError(f"{place} can't be read.") from error

    def _check_space(self) -> None:
        left = self._job.plan.size - self._done()
        if not left:
            return
        needed, free = left + RESERVE_BYTES, free_bytes(self._job)
        if needed > free:
            raise DiskFullError(
                f"The download needs {needed / 1e9:,.1f} GB more on the disk of "
                f"{self._job.work.parent.parent}, where {free / 1e9:,.1f} GB are free."
            )

    async def _fetch(self, missing: list[PartFile]) -> None:
        places = asyncio.Semaphore(FILES_AT_ONCE)

        async def fetch(part: PartFile) -> None:
            async with places:
                one = Transfer(self._hub, self._job.plan, part, self._meter, self._patience)
                self._transfers.append(one)
                await one.run()
                self._transfers.remove(one)

        running = [asyncio.ensure_future(fetch(part)) for part in missing]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _publish(self, missing: list[PartFile]) -> None:
        """A pause after it has begun comes too late."""
        publishing = asyncio.ensure_future(asyncio.to_thread(publish, self._job, missing))
        try:
            await asyncio.shield(publishing)
        except asyncio.CancelledError:
            await publishing

    async def _keep_telling(self) -> None:
        while True:
            self._tell(self._progress())
            await asyncio.sleep(TELL_EVERY_S)

    def _progress(self) -> Progress:
        waits = [each.waiting for each in self._transfers]
        return Progress(
            work=str(self._job.work),
            done=self._done(),
            total=self._job.plan.size,
            speed=self._meter.speed(),
            elsewhere=self._elsewhere,
            waiting=waits[0] if waits and all(waits) else "",
            checking=any(each.checking for each in self._transfers) or not self._transfers,
        )

    def _done(self) -> int:
        return sum(
            part.file.size
            if part.file.path in self._placed
            else min(part.file.size, part.received + part.pending)
            for part in self._parts
        )


# A search is repeated once at most: the user waits for it.
QUICK_ATTEMPTS = 2


class Service:
    """Requests nothing without a usable `Configure`."""

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
            case Fetch():
                await self._begin(command.work)
            case Pause() if command.work in self._fetching:
                self._fetching[command.work].cancel()

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
            self._emit(Failed(request=request, error=named(error).info()))

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

    async def _begin(self, work: str) -> None:
        if (before := self._fetching.get(work)) is not None:
            if not before.cancelling():
                return
            # Resumed before the pause took effect; the download may even be complete.
            await asyncio.wait((before,))
            if not before.cancelled():
                return
        task = self._fetching[work] = asyncio.ensure_future(self._fetch(work))
        task.add_done_callback(partial(self._ended, work))

    async def _fetch(self, work: str) -> Path:
        return await Download(read(Path(work)), self._hub, self._emit, self._patience).run()

    def _ended(self, work: str, task: asyncio.Task[Path]) -> None:
        # Not a part of the task, which never runs if cancelled at once.
        del self._fetching[work]
        if task.cancelled():
            self._emit(Paused(work=work))
        elif (error := task.exception()) is not None:
            self._emit(Stopped(work=work, error=named(error).info()))
        else:
            self._emit(Completed(work=work, path=str(task.result())))


def main() -> None:
    run_child(Service, COMMANDS)


if __name__ == "__main__":
    main()
