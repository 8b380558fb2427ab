"""The window's side of its local server: starts the process, and passes its commands to the engine.

The window's cache and draft settings hold for clients. Only commands that clients cause are passed
on, and only pictures that the server stored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from core.api.commands import CountPrompt, Generate, PrefillReply
from core.api.errors import (
    EngineDiedError,
    ErrorInfo,
    InvalidRequestError,
    NoModelError,
    WaymarkError,
)
from core.api.events import Answer, Failed, Loaded
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, DraftSettings
from core.client.child import Child
from core.client.client import EngineClient
from core.client.programs import program
from core.client.requests import Request, spawn
from core.server.messages import (
    FROM_SERVER,
    Answered,
    Asked,
    ContentSeen,
    FromServer,
    Listening,
    ModelIs,
    NotListening,
    RequestSeen,
    Serve,
    TellContent,
    UseModel,
)

MODE = "--below-window"
ServerNews = Listening | NotListening | RequestSeen | ContentSeen | ErrorInfo
"""News for the window; an ErrorInfo says that the process ended by itself."""


class LocalServer:
    """`heard` gets the server's news in order; `settings` are for the next request. `use` loads a
    model by name, or the last one."""

    def __init__(
        self,
        engine: EngineClient,
        heard: Callable[[ServerNews], None],
        settings: Callable[[], tuple[CacheSettings, DraftSettings]],
        use: Callable[[str], Awaitable[ModelInfo]],
        log_file: Path | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._engine, self._heard = engine, heard
        self._settings, self._use = settings, use
        self._child = Child(
            command or program("core.server", MODE), FROM_SERVER, self._take, self._ended, log_file
        )
        self._served = ModelIs(model=None)
        self._tell_content = TellContent(on=False)
        self._pictures = Path()
        self._closing = False
        # The server's open requests by its own numbers.
        self._open: dict[int, Request[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def model(self) -> ModelInfo | None:
        return self._served.model

    @property
    def pid(self) -> int | None:
        return self._child.pid

    async def start(self, serve: Serve) -> None:
        """Raises EngineDiedError. Answered by Listening or NotListening."""
        self._closing = False
        self._pictures = Path(serve.pictures)
        try:
            await self._child.start(serve)
        except EngineDiedError as error:
            raise EngineDiedError(error.message, "The local server could not start") from error
        await self._child.send(self._served)
        await self._child.send(self._tell_content)

    async def close(self) -> None:
        self._closing = True
        await self._child.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def serve(self, now: ModelIs) -> None:
        """Requests to a model that is gone end with an error."""
        before, self._served = self._served, now
        if now == before:
            return
        if now.model != before.model or now.asleep:
            gone = NoModelError("The model was changed or unloaded while this request ran.").info()
            for number in list(self._open):
                self._drop(number)
                self._answer(Failed(request=number, error=gone))
        self._spawn(now)

    def tell_content(self, on: bool) -> None:
        self._tell_content = TellContent(on=on)
        self._spawn(self._tell_content)

    def _take(self, message: FromServer) -> None:
        if not isinstance(message, Asked):
            self._heard(message)
            return
        command = message.command
        if isinstance(command, UseModel):
            spawn(self._answer_use(command), self._tasks)
        elif not isinstance(command, Generate | PrefillReply | CountPrompt):
            self._drop(command.target)
        elif (error := self._objection(command)) is not None:
            self._answer(Failed(request=command.request, error=error.info()))
        else:
            self._ask(command)

    def _objection(self, command: Generate | PrefillReply | CountPrompt) -> WaymarkError | None:
        if self._served.model is None or self._served.asleep:
            return NoModelError("No model is loaded at the moment.")
        pictures = command.conversation.pictures
        if not all(_is_below(each.path, self._pictures) for each in pictures):
            return InvalidRequestError("A picture is not one that was sent.")
        return None

    def _ask(self, command: Generate | PrefillReply | CountPrompt) -> None:
        cache, draft = self._settings()
        ours: dict[str, object] = {"guest": True}
        if not isinstance(command, CountPrompt):
            ours["cache"] = cache
        if isinstance(command, Generate):
            ours |= {"draft": draft, "probe": None}
        request = self._engine.ask(command.model_copy(update=ours))
        self._open[command.request] = request
        spawn(self._pass_on(command.request, request), self._tasks)

    async def _pass_on(self, number: int, request: Request[Any]) -> None:
        async for event in request:
            # Its end may have been reported already.
            if self._open.get(number) is not request:
                return
            event = event.model_copy(update={"request": number})
            with contextlib.suppress(EngineDiedError):
                await self._child.send(Answered(event=event))
        self._open.pop(number, None)

    def _drop(self, number: int) -> None:
        request = self._open.get(number)
        if request is not None:
            request.cancel()

    def _answer(self, event: Answer) -> None:
        self._open.pop(event.request, None)
        self._spawn(Answered(event=event))

    async def _answer_use(self, command: UseModel) -> None:
        try:
            model = await self._use(command.name)
        except WaymarkError as error:
            self._answer(Failed(request=command.request, error=error.info()))
        else:
            self._answer(Loaded(request=command.request, model=model))

    def _spawn(self, message: ModelIs | Answered | TellContent) -> None:
        async def send() -> None:
            with contextlib.suppress(WaymarkError):
                await self._child.send(message)

        if self._child.pid is not None:
            spawn(send(), self._tasks)

    def _ended(self) -> None:
        for number in list(self._open):
            self._drop(number)
        self._open.clear()
        if not self._closing:
            words = "Its process ended; switch it on again."
            self._heard(EngineDiedError(words, "The local server stopped").info())


def _is_below(path: str, folder: Path) -> bool:
    place = Path(path)
    return ".." not in place.parts and folder in place.parents
