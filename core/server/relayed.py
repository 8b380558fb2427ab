"""The server's process below a window, whose engine it asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel

from core.api.commands import Answered as Command
from core.api.commands import Cancel, Last_co
from core.api.errors import EngineDiedError, ErrorInfo, WaymarkError
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings
from core.client.child import end_process, incoming, named
from core.client.codec import send
from core.client.programs import become_child
from core.client.requests import Request, RequestTable
from core.server.access import Access
from core.server.activity import Activity
from core.server.answering import Answering
from core.server.application import application
from core.server.kept_replies import KeptReplies
from core.server.listening import address_of, bound, serve
from core.server.messages import (
    TO_SERVER,
    Answered,
    Asked,
    Listening,
    ModelIs,
    NotListening,
    Serve,
    TellContent,
    UseModel,
)
from core.server.requests.pictures import Pictures

Emit = Callable[[BaseModel], None]
_STOPPED = "Waymark was closed, or the server was switched off or got other settings."


class RelayedEngine:
    def __init__(self, emit: Emit) -> None:
        self.model: ModelInfo | None = None
        self.names: tuple[str, ...] = ()
        self.asleep = False
        self._emit = emit
        self._requests = RequestTable()

    def ask(self, command: Command[Last_co]) -> Request[Last_co]:
        request = self._requests.open(command, self._cancel)
        try:
            # Only commands that the window takes are asked for.
            self._emit(Asked.model_construct(command=request.command))
        except WaymarkError as error:
            self._requests.fail(request.id, error.info())
        return request

    async def use(self, name: str) -> None:
        await self.ask(UseModel(name=name)).last()

    def take(self, message: ModelIs | Answered) -> None:
        if isinstance(message, Answered):
            self._requests.route(message.event)
        else:
            self.model, self.names, self.asleep = message.model, message.names, message.asleep

    def close(self, error: ErrorInfo) -> None:
        self.model, self.asleep = None, False
        self._requests.fail_all(error)

    def _cancel(self, number: int) -> None:
        self._emit(Asked(command=Cancel(target=number)))


async def serve_window(commands: BinaryIO, emit: Emit) -> None:
    messages = incoming(commands, TO_SERVER)
    first = await anext(messages, None)
    if not isinstance(first, Serve):
        return
    engine = RelayedEngine(emit)
    try:
        pictures = Pictures(Path(first.pictures))
        listening = bound(first.port, first.lan)
    except (WaymarkError, OSError) as error:
        emit(NotListening(error=named(error).info()))
        return
    kept = KeptReplies(Path(first.replies) if first.replies else None)
    activity = Activity(emit)
    app = application(
        Answering(engine, CacheSettings(), kept, first.steady),
        pictures,
        Access(first.key, first.origins, first.lan),
        activity,
    )
    with contextlib.closing(listening):
        serving = asyncio.ensure_future(serve(app, listening, child=True))
        emit(Listening(address=address_of(listening)))
        async for message in messages:
            if isinstance(message, TellContent):
                activity.tells_content = message.on
            elif isinstance(message, ModelIs | Answered):
                engine.take(message)
        engine.close(EngineDiedError(_STOPPED, "The server stopped").info())
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    kept.close()
    pictures.clear()


def main() -> None:
    commands, output = become_child()

    def emit(message: BaseModel) -> None:
        with contextlib.suppress(BrokenPipeError):
            send(output, message)

    try:
        asyncio.run(serve_window(commands, emit))
    finally:
        end_process()
