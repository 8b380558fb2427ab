"""Requests that wait for answers, and the table that routes events to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic

from core.api.commands import Answered, Last_co
from core.api.errors import ErrorInfo, WaymarkError
from core.api.events import Answer, Beat, Event, Failed, Hello, Last


class EngineError(WaymarkError):
    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error

    def info(self) -> ErrorInfo:
        return self.error


class Request(Generic[Last_co]):
    def __init__(self, command: Answered[Last_co], cancel: Callable[[int], None]) -> None:
        self.command = command
        self._cancel = cancel
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = False

    @property
    def id(self) -> int:
        return self.command.request

    def cancel(self) -> None:
        if not self._ended:
            self._cancel(self.id)

    def put(self, event: Answer | Last) -> None:
        self._ended = self._ended or isinstance(event, Last)
        self._events.put_nowait(event)

    async def __aiter__(self) -> AsyncIterator[Answer]:
        # After the last event, a second listener gets nothing rather than waiting forever.
        while not (self._ended and self._events.empty()):
            event = await self._events.get()
            yield event
            if isinstance(event, Last):
                return

    async def last(self, on_event: Callable[[Answer], None] | None = None) -> Last_co:
        async for event in self:
            if isinstance(event, Failed):
                raise EngineError(event.error)
            if isinstance(event, self.command.last_event()):
                return event
            if on_event is not None:
                on_event(event)
        raise AssertionError("a request ends with its last event")


def spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Keep the task in `tasks` until it ends: asyncio refers to it weakly."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


class RequestTable:
    def __init__(self) -> None:
        self._open: dict[int, Request[Last]] = {}
        self._next = 1

    def open(self, command: Answered[Last_co], cancel: Callable[[int], None]) -> Request[Last_co]:
        request = Request(command.model_copy(update={"request": self._next}), cancel)
        self._next += 1
        self._open[request.id] = request
        return request

    @property
    def open_numbers(self) -> list[int]:
        return list(self._open)

    def route(self, event: Event | Last) -> None:
        if isinstance(event, Hello | Beat):
            return
        request = self._open.get(event.request)
        if request is None:
            return
        if isinstance(event, Last):
            del self._open[event.request]
        request.put(event)

    def fail(self, number: int, error: ErrorInfo) -> None:
        self.route(Failed(request=number, error=error))

    def fail_all(self, error: ErrorInfo) -> None:
        for number in self.open_numbers:
            self.fail(number, error)
