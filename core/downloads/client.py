"""The window's side of the process of downloads, started when first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel

from core.api.commands import Answered
from core.api.errors import EngineDiedError, WaymarkError
from core.api.events import Failed
from core.client.child import Child
from core.client.programs import program
from core.client.requests import RequestTable
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
    Repository,
    Search,
    Stopped,
)

DownloadNews = Progress | Paused | Stopped | Completed


def _died() -> EngineDiedError:
    words = "The process of downloads ended. What has arrived is kept."
    return EngineDiedError(words, "The download stopped")


class DownloadsClient:
    """`heard` gets all downloads' events in order."""

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
            self._ended,
            log_file,
        )
        self._connection = Connection()
        self._requests = RequestTable()
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
        return await self._ask(Search(text=text))

    async def look(self, repository: str) -> Repository:
        """Raises WaymarkError."""
        (found,) = await self._ask(Look(repository=repository))
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
        await self._child.close()

    async def _ask(self, command: Answered[Found]) -> tuple[Repository, ...]:
        await self._start()
        request = self._requests.open(command, lambda _: None)
        try:
            await self._send(request.command)
        except WaymarkError as error:
            self._requests.fail(request.id, error.info())
        return (await request.last()).repositories

    async def _start(self) -> None:
        await self._child.start(Configure(connection=self._connection))

    async def _send(self, command: BaseModel) -> None:
        try:
            await self._child.send(command)
        except EngineDiedError as error:
            raise _died() from error

    def _take(self, event: DownloadEvent) -> None:
        match event:
            case Found() | Failed():
                self._requests.route(event)
            case Progress():
                # It may have been resumed before its pause had ended.
                self._fetching.add(event.work)
                self._heard(event)
            case _:
                self._fetching.discard(event.work)
                self._heard(event)

    def _ended(self) -> None:
        error = _died().info()
        self._requests.fail_all(error)
        fetching, self._fetching = self._fetching, set()
        for work in sorted(fetching):
            self._heard(Stopped(work=work, error=error))
