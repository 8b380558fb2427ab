"""The window's side of the process that talks to servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from core.api.commands import Cancel, Generate
from core.api.errors import EngineDiedError, WaymarkError
from core.api.events import Failed, Finished
from core.client.child import Child
from core.client.programs import program
from core.client.requests import Answers, Request, RequestTable, spawn
from core.remote.messages import FROM_REMOTE, Connect, FromRemote, Look, Looked, RemoteServer, Reply

# A process that works answers Cancel at once.
CANCEL_PATIENCE_S = 8.0


def _died() -> EngineDiedError:
    words = "The process that talks to servers ended. What has arrived is kept."
    return EngineDiedError(words, "The connection to the server ended")


class RemoteClient:
    """All methods belong to the event loop's thread."""

    def __init__(self, log_file: Path | None = None, command: Sequence[str] | None = None) -> None:
        self._child = Child(
            command or program("core.remote"), FROM_REMOTE, self._take, self._ended, log_file
        )
        self._proxy = ""
        self._replies = RequestTable()
        # Replies count up, looks down.
        self._looks = Answers[RemoteServer](step=-1)
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def ask(
        self, command: Generate, server: RemoteServer, model: str, key: str, proxy: str
    ) -> Request[Finished]:
        request = self._replies.open(command, self._cancel)
        numbered = command.model_copy(update={"request": request.id})
        reply = Reply(server=server, model=model, key=key, generate=numbered)
        spawn(self._send_reply(reply, request.id, proxy), self._tasks)
        return request

    async def look(self, address: str, key: str, proxy: str) -> RemoteServer:
        """Raises WaymarkError."""
        return await self._looks.ask(
            lambda number: self._send(Look(request=number, address=address, key=key), proxy)
        )

    async def close(self) -> None:
        await self._child.close()

    def _cancel(self, number: int) -> None:
        spawn(self._send_cancel(number), self._tasks)
        asyncio.get_running_loop().call_later(CANCEL_PATIENCE_S, self._end_if_hung, number)

    def _end_if_hung(self, number: int) -> None:
        if number in self._replies.open_numbers:
            spawn(self.close(), self._tasks)

    async def _send_reply(self, reply: Reply, number: int, proxy: str) -> None:
        try:
            await self._send(reply, proxy)
        except WaymarkError as error:
            self._replies.fail(number, error.info())

    async def _send_cancel(self, number: int) -> None:
        # The lock keeps it behind its reply.
        async with self._sending:
            if self.pid is not None:
                await self._child.send(Cancel(target=number))

    async def _send(self, message: BaseModel, proxy: str) -> None:
        async with self._sending:
            try:
                await self._child.start(Connect(proxy=self._proxy))
                if proxy != self._proxy:
                    self._proxy = proxy
                    await self._child.send(Connect(proxy=proxy))
                await self._child.send(message)
            except EngineDiedError as error:
                raise _died() from error

    def _take(self, event: FromRemote) -> None:
        if isinstance(event, Looked):
            self._looks.settle(event.request, event.server)
        elif isinstance(event, Failed) and event.request in self._looks:
            self._looks.settle(event.request, event.error)
        else:
            self._replies.route(event)

    def _ended(self) -> None:
        error = _died().info()
        self._replies.fail_all(error)
        self._looks.fail_all(error)
