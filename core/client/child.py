"""A child process that exchanges frames with its parent, as both sides see it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Generic, NoReturn, Protocol

from pydantic import BaseModel, TypeAdapter

from core.api.errors import EngineDiedError, InternalError, ProtocolError, WaymarkError
from core.client.codec import Message, decode, read_frame, send
from core.client.programs import become_child
from core.client.traces import print_trace
from core.client.transport import Transport

STOP_PATIENCE_S = 4.0
ENDING_S = 2.0


class Child(Generic[Message]):
    """The parent's side: `heard` gets messages in order, `ended` is called when the child is gone.
    The next `start` starts another."""

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
        self._process: Transport[Message] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, first: BaseModel) -> None:
        """Start the process with a first message, unless it runs. Raises EngineDiedError."""
        async with self._starting:
            if self._process is not None:
                return
            self._process = await Transport.spawn(self._command, self._log_file, self._messages)
            self._listening = asyncio.ensure_future(self._listen(self._process))
            await self.send(first)

    async def send(self, message: BaseModel) -> None:
        """Raises EngineDiedError if no process runs."""
        if self._process is None:
            raise EngineDiedError("The process has ended.")
        await self._process.send(message)

    async def started(self) -> bool:
        async with self._starting:
            return self._process is not None

    async def close(self) -> None:
        """Also while it starts. Idempotent."""
        async with self._starting:
            process, listening = self._process, self._listening
        if process is not None and listening is not None:
            process.close_input()
            await asyncio.wait((listening,), timeout=STOP_PATIENCE_S)
            process.kill()
            await listening

    async def _listen(self, process: Transport[Message]) -> None:
        try:
            while (message := await process.receive()) is not None:
                self._heard(message)
        except ProtocolError:
            process.kill()
        await process.stop(STOP_PATIENCE_S)
        self._process = None
        self._ended()


class Service(Protocol):
    """`take` may raise, `close` ends what is running."""

    async def take(self, message: Any) -> None: ...
    async def close(self) -> None: ...


def run_child(make: Callable[[Callable[[BaseModel], None]], Service], messages: Any) -> NoReturn:
    """Serve the parent until the input ends, then end the process. `make` gets the function that
    sends events."""
    commands, events = become_child()

    async def serve() -> None:
        service = make(partial(send, events))
        async for message in incoming(commands, messages):
            await service.take(message)
        await asyncio.wait_for(service.close(), ENDING_S)

    try:
        asyncio.run(serve())
    except (BrokenPipeError, TimeoutError):
        pass
    finally:
        end_process()


def end_process() -> NoReturn:
    """At once: a thread may wait for a disk that doesn't answer."""
    try:
        sys.stderr.flush()
    finally:  # also of a thread whose errors nobody reads
        os._exit(0)


def named(error: BaseException) -> WaymarkError:
    """An error for a person; an unexpected one's own message may quote what people wrote."""
    if isinstance(error, WaymarkError):
        return error
    print_trace(error)
    return InternalError(f"An unexpected error occurred ({type(error).__name__}).")


async def incoming(stream: BinaryIO, messages: TypeAdapter[Message]) -> AsyncIterator[Message]:
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
