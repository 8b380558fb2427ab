"""Replies in progress, from waiting for the model to the stored end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from PySide6.QtCore import Signal

from core.api.chat import Conversation
from core.api.commands import Generate
from core.api.errors import ErrorInfo, NoVisionError, RequestCancelled, WaymarkError
from core.api.events import Answer, Failed, Finished, Generated, Prefilling, Queued
from core.client.requests import Request
from core.remote.connection import host_of
from core.remote.messages import Place
from desktop.chat.conversation import has_pictures
from desktop.chat.transcript import Length, LiveReply
from desktop.engine.engine_status import EngineStatus, Phase, model_name
from desktop.engine.tasks import attempted
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.services import Controller, Services
from desktop.store.settings import with_own
from desktop.store.tables import replies
from desktop.store.tables.records import ChatPath, Reply, ReplyState

SAVE_EVERY_S = 1.0
# A step of a large model may take seconds; the user doesn't wait for a longer one.
STOP_PATIENCE_S = 10.0
# How long deleting or editing waits for the replies it stops.
ALL_STOPPED_PATIENCE_S = 5.0


class Replies(Controller):
    """They go on when another chat is shown.

    `streamed(message)`: more text. `progressed(live)`: new status or numbers. `ended(live, text,
    reply)`: as stored.
    """

    streamed = Signal(int)
    progressed = Signal(object)
    ended = Signal(object, str, object)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.live: dict[int, LiveReply] = {}
        self._services = services
        self._runs: dict[int, ReplyRun] = {}

    def begin(self, live: LiveReply, conversation: Conversation, of: ChatPath) -> None:
        """Have it written here or at the chat's place, with the chat's settings."""
        message = live.message
        live.grown.connect(lambda: self.streamed.emit(message))
        run = ReplyRun(live, conversation, of, self._services, self)
        self.live[message], self._runs[message] = live, run
        run.task = self._services.tasks.spawn(
            run.run(), tr("Reply {message}").format(message=message)
        )

    def stop(self, message: int) -> None:
        run = self._runs.get(message)
        if run is not None:
            run.stop()

    async def stop_chat(self, chat: int) -> None:
        """Waits until they are stored."""
        runs = [self._runs[message] for message, live in self.live.items() if live.chat == chat]
        for run in runs:
            run.stop()
        tasks = [run.task for run in runs if run.task]
        # Don't wait for an engine that doesn't answer; its reply ends later.
        if tasks:
            await asyncio.wait(tasks, timeout=ALL_STOPPED_PATIENCE_S)

    async def store_at_closing(self) -> None:
        """Call when no task runs."""
        for run in list(self._runs.values()):
            await attempted("storing a reply", run.store_at_closing)

    def end(self, live: LiveReply, text: str, reply: Reply) -> None:
        live.show_arrived()
        self.live.pop(live.message, None)
        self._runs.pop(live.message, None)
        self.ended.emit(live, text, reply)


class ReplyRun:
    """Stores the reply once a second while it grows."""

    def __init__(
        self,
        live: LiveReply,
        conversation: Conversation,
        of: ChatPath,
        services: Services,
        replies: Replies,
    ) -> None:
        self.task: asyncio.Task[object] | None = None
        self._live = live
        self._conversation = conversation
        self._key = of.key
        self._place = of.place
        self._remote = services.remote
        self._settings = with_own(services.settings.settings, of.settings)
        self._engine = services.engine
        self._database = services.database
        self._replies = replies
        self._request: Request[Finished] | None = None
        self._stopped = asyncio.Event()
        # If the engine dies before it has worked on this request, the request is sent again.
        self._begun = False
        self._end: tuple[str, Reply] | None = None

    async def run(self) -> None:
        saver = asyncio.ensure_future(self._save_repeatedly())
        try:
            if self._place is None:
                last = await self._last_event()
            else:
                last = await self._remote_end(self._place)
        finally:
            saver.cancel()
        self._end = text, reply = self._live.ending(last, remote=self._place is not None)
        try:
            await self._store(text, reply)
        except WaymarkError:
            # The error is shown elsewhere; on screen the reply ends anyway.
            self._replies.end(self._live, text, reply)
            raise
        self._replies.end(self._live, text, reply)

    def stop(self) -> None:
        self._stopped.set()
        if self._request is not None:
            self._say(tr("Stopping"))
            self._request.cancel()
            asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._give_up)

    def _give_up(self) -> None:
        if self._request is not None and self._end is None:
            late = RequestCancelled(tr("The engine did not stop in time.")).info()
            self._request.put(Failed(request=self._request.id, error=late))

    async def store_at_closing(self) -> None:
        stopped = self._live.so_far(ReplyState.STOPPED)
        await self._store(*(self._end or (self._live.text, stopped)))

    async def _store(self, text: str, reply: Reply) -> None:
        await self._database.run(replies.save, self._live.message, text, reply)

    async def _save_repeatedly(self) -> None:
        live, stored = self._live, None
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            if not live.saved:
                # A full disk may have room again in a second; storing the end shows the error.
                with contextlib.suppress(WaymarkError):
                    live.saved = True
                    stored = await self._save(stored)

    async def _save(self, stored: Length | None) -> Length:
        live, length = self._live, self._live.length()
        if stored is None:
            await self._store(live.text, live.so_far(ReplyState.RUNNING))
        else:
            text, reply = live.gained(stored)
            await self._database.run(replies.append, live.message, text, reply)
        return length

    async def _last_event(self) -> Finished | ErrorInfo | None:
        """None if it was stopped before the engine had it."""
        while await self._model_ready():
            refusal = self._refusal()
            if refusal is not None:
                return refusal
            last = await self._request_reply()
            retry = not self._begun and not self._stopped.is_set()
            if not (isinstance(last, ErrorInfo) and last.name == "EngineDiedError" and retry):
                return last
            await self._engine.until(lambda status: not has_model(status))
        return None

    async def _model_ready(self) -> bool:
        while not has_model(self._engine.status) and not self._stopped.is_set():
            self._say(self._engine.status.waiting_words())
            changed = asyncio.ensure_future(self._engine.until_other())
            self._engine.wake()
            await self._until_stopped(changed)
        return not self._stopped.is_set()

    async def _until_stopped(self, work: asyncio.Future[Any]) -> bool:
        """False if the user stopped the reply first, which cancels the work."""
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return work.done()
        finally:
            work.cancel()
            stopped.cancel()

    def _refusal(self) -> ErrorInfo | None:
        model = self._engine.model
        if model is None or model.vision or not has_pictures(self._conversation):
            return None
        text = tr("This chat has pictures, and {model} can't see them.")
        return NoVisionError(text.format(model=model.name)).info()

    async def _request_reply(self) -> Finished | ErrorInfo:
        model = self._engine.model
        self._live.model = model_name(model) if model is not None else ""
        self._say(tr("Waiting for the engine"))
        thinking = self._settings.thinking if model and model.thinking_switch else None
        self._request = self._engine.client.ask(self._command(thinking))
        return await self._follow(self._request)

    async def _remote_end(self, place: Place) -> Finished | ErrorInfo | None:
        """None if it was stopped before it was sent."""
        self._live.model = f"{place.model} ({host_of(place.address)})"
        self._live.stats = None
        self._say(tr("Waiting for {host}").format(host=host_of(place.address)))
        # The keyring may ask for its password.
        asking = asyncio.ensure_future(
            self._remote.ask(self._command(self._settings.thinking), place)
        )
        if not await self._until_stopped(asking):
            return None
        try:
            self._request = asking.result()
        except WaymarkError as error:
            return error.info()
        if self._stopped.is_set():
            self.stop()
        return await self._follow(self._request)

    def _command(self, thinking: bool | None) -> Generate:
        settings = self._settings
        return Generate(
            conversation=self._conversation,
            chat=self._key,
            sampling=settings.sampling,
            draft=settings.draft,
            format=self._live.format,
            thinking=thinking,
            cache=settings.cache,
        )

    async def _follow(self, request: Request[Finished]) -> Finished | ErrorInfo:
        async for event in request:
            if isinstance(event, Finished):
                return event
            if isinstance(event, Failed):
                return event.error
            self._on_event(event)
        raise AssertionError("a request ends with a last event")

    def _on_event(self, event: Answer) -> None:
        live = self._live
        match event:
            case Queued():
                self._say(queued_text(event.ahead))
            case Prefilling():
                self._begun = True
                live.stats, live.done = event.stats, event.done
                live.opening = event.begun or live.opening
                self._say(prefill_text(event))
            case Generated():
                self._begun = True
                live.take(event)
                if live.done is not None or live.status:
                    live.done = None
                    self._say(tr("Stopping") if self._stopped.is_set() else "")
            case _:
                pass

    def _say(self, status: str) -> None:
        self._live.status = status
        self._replies.progressed.emit(self._live)


def has_model(status: EngineStatus) -> bool:
    return status.phase is Phase.READY and status.model is not None


def queued_text(ahead: int) -> str:
    if ahead == 1:
        return tr("Waiting for another reply to finish")
    return tr("Waiting for {count} other replies to finish").format(count=format_count(ahead))


def prefill_text(event: Prefilling) -> str:
    report, parts = event.stats.remote, event.stats.parts
    if report is not None and not report.prompt:
        return tr("Waiting for {host}").format(host=report.host)
    is_image = any(part.kind == "image" and part.start <= event.done < part.end for part in parts)
    text = (
        tr("Reading an image: {done} of {count} tokens")
        if is_image
        else tr("Reading: {done} of {count} tokens")
    )
    return text.format(done=format_count(event.done), count=format_count(event.stats.prompt_tokens))
