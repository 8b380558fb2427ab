"""The window's side of the process that talks to servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from core.api.commands import Cancel, Generate
from core.api.errors import EngineDiedError, WaymarkError
from core.api.events import Finished
from core.client.child import Child
from core.client.programs import program
from core.client.requests import Request, RequestTable, spawn
from core.remote.messages import FROM_REMOTE, Connect, Look, RemoteServer, Reply

# A process that works answers Cancel at once.
CANCEL_PATIENCE_S = 8.0


def _died() -> EngineDiedError:
    words = "The process that talks to servers ended. What has arrived is kept."
    return EngineDiedError(words, "The connection to the server ended")


class RemoteClient:
    """All methods belong to the event loop's thread."""

    def __init__(self, log_file: Path | None = None, command: Sequence[str] | None = None) -> None:
        self._requests = RequestTable()
        self._child = Child(
            command or program("core.remote"),
            FROM_REMOTE,
            self._requests.route,
            lambda: self._requests.fail_all(_died().info()),
            log_file,
        )
        self._proxy = ""
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def ask(
        self, command: Generate, server: RemoteServer, model: str, key: str, proxy: str
    ) -> Request[Finished]:
        request = self._requests.open(command, self._cancel)
        generate = command.model_copy(update={"request": request.id})
        reply = Reply(server=server, model=model, key=key, generate=generate)
        spawn(self._send(reply, request.id, proxy), self._tasks)
        return request

    async def look(self, address: str, key: str, proxy: str) -> RemoteServer:
        """Raises WaymarkError."""
        request = self._requests.open(Look(address=address, key=key), self._cancel)
        await self._send(request.command, request.id, proxy)
        return (await request.last()).server

    async def close(self) -> None:
        await self._child.close()

    def _cancel(self, number: int) -> None:
        spawn(self._send_cancel(number), self._tasks)
        asyncio.get_running_loop().call_later(CANCEL_PATIENCE_S, self._end_if_hung, number)

    def _end_if_hung(self, number: int) -> None:
        if number in self._requests.open_numbers:
            spawn(self.close(), self._tasks)

    async def _send_cancel(self, number: int) -> None:
        # The lock keeps it behind its reply.
        async with self._sending:
            with contextlib.suppress(EngineDiedError):
                await self._child.send(Cancel(target=number))

    async def _send(self, message: BaseModel, number: int, proxy: str) -> None:
        async with self._sending:
            try:
                await self._child.start(Connect(proxy=self._proxy))
                if proxy != self._proxy:
                    self._proxy = proxy
                    await self._child.send(Connect(proxy=proxy))
                await self._child.send(message)
            except EngineDiedError:
                self._requests.fail(number, _died().info())
            except WaymarkError as error:
                self._requests.fail(number, error.info())
