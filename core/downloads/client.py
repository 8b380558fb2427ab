"""The window's side of the process of downloads, which is started when it is needed first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel

from core.api.errors import EngineDiedError, WaymarkError
from core.client.child import Child
from core.client.programs import program
from core.client.requests import Answers
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

DownloadNews = Progress | Paused | Stopped | Completed


def _died() -> EngineDiedError:
    words = "The process of downloads ended. What has arrived is kept."
    return EngineDiedError(words, "The download stopped")


class DownloadsClient:
    """`heard` gets the events of all downloads in order."""

    def __init__(
        self,
        heard: Callable[[DownloadNews], None],
        log_file: Path | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._heard = heard
        self._child = Child(
            command or program("core.downloads"),
            EVENTS,
            self._take,
            lambda: self._end_all(_died()),
            log_file,
        )
        self._connection = Connection()
        self._asked = Answers[tuple[Repository, ...]]()
        self._fetching: set[str] = set()

    @property
    def pid(self) -> int | None:
        return self._child.pid

    async def configure(self, connection: Connection) -> None:
        if connection == self._connection:
            return
        self._connection = connection
        if self.pid is not None:
            await self._send(Configure(connection=connection))

    async def search(self, text: str) -> tuple[Repository, ...]:
        return await self._ask(lambda number: Search(request=number, text=text))

    async def look(self, repository: str) -> Repository:
        """Raises WaymarkError."""
        (found,) = await self._ask(lambda number: Look(request=number, repository=repository))
        return found

    async def fetch(self, work: Path) -> None:
        """Start or resume a download. Raises EngineDiedError."""
        await self._start()
        self._fetching.add(str(work))
        await self._send(Fetch(work=str(work)))

    async def pause(self, work: Path) -> None:
        # After the request to fetch, which waits for the process.
        if await self._child.started():
            await self._send(Pause(work=str(work)))

    async def close(self) -> None:
        """End the process, even one that is starting; what has arrived is kept. Idempotent."""
        await self._child.close()

    async def _ask(self, command: Callable[[int], BaseModel]) -> tuple[Repository, ...]:
        await self._start()
        return await self._asked.ask(lambda number: self._send(command(number)))

    async def _start(self) -> None:
        await self._child.start(Configure(connection=self._connection))

    async def _send(self, command: BaseModel) -> None:
        try:
            await self._child.send(command)
        except EngineDiedError as error:
            raise _died() from error

    def _take(self, event: DownloadEvent) -> None:
        match event:
            case Found():
                self._asked.settle(event.request, event.repositories)
            case Refused():
                self._asked.settle(event.request, event.error)
            case Progress():
                self._heard(event)
            case _:
                self._fetching.discard(event.work)
                self._heard(event)

    def _end_all(self, error: WaymarkError) -> None:
        self._asked.fail_all(error.info())
        fetching, self._fetching = self._fetching, set()
        for work in sorted(fetching):
            self._heard(Stopped(work=work, error=error.info()))
