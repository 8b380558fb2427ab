"""One reply from waiting for the model to its end: what it waits for, what arrives, how it ends.

Knows the engine's events, and stores once a second what is new. Whom to tell is the owner's
business.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Protocol

from core.api.chat import Conversation
from core.api.commands import Generate
from core.api.errors import ErrorInfo, NoVisionError, RequestCancelled, WaymarkError
from core.api.events import (
    Answer,
    Failed,
    Finished,
    FinishReason,
    Generated,
    Prefilling,
    Queued,
)
from core.client.requests import Request
from desktop.chat.messages import Length, LiveReply
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus, Phase, model_name
from desktop.store.database import Database
from desktop.store.settings import AppSettings
from desktop.store.tables import messages
from desktop.store.tables.records import Reply, ReplyState
from desktop.words.conversation import (
    NOT_STOPPED,
    STOPPING,
    WAITING,
    queued_words,
    reading_words,
    unseen_pictures_words,
)

SAVE_EVERY_S = 1.0
# A step of a large model may take seconds; one that takes longer is waited for by nobody.
STOP_PATIENCE_S = 10.0
STATES: dict[FinishReason, ReplyState] = {
    "cancelled": ReplyState.STOPPED,
    "error": ReplyState.FAILED,
}


class Listener(Protocol):
    """Who is told of a reply on its way."""

    def progressed_with(self, live: LiveReply) -> None: ...
    def received(self, live: LiveReply, event: Generated) -> None: ...
    def finished(self, live: LiveReply, text: str, reply: Reply) -> None: ...


class ReplyRun:
    """Carries one reply through; `run` is the task, `stop` ends it early."""

    def __init__(
        self,
        live: LiveReply,
        conversation: Conversation,
        key: str,
        settings: AppSettings,
        engine: EngineController,
        database: Database,
        listener: Listener,
    ) -> None:
        self.task: asyncio.Task[object] | None = None
        self._live = live
        self._conversation = conversation
        self._key = key
        self._settings = settings
        self._engine = engine
        self._database = database
        self._listener = listener
        self._request: Request[Finished] | None = None
        self._stopped = asyncio.Event()
        # Whether the engine has worked on it: else a death of the engine is none of its doing.
        self._begun = False
        self._end: tuple[str, Reply] | None = None

    async def run(self) -> None:
        saver = asyncio.ensure_future(self._save_again_and_again())
        try:
            last = await self._last_event()
        finally:
            saver.cancel()
        self._end = text, reply = self._ending(last)
        try:
            await self._store(text, reply)
        except WaymarkError:
            # That it could not be stored is said elsewhere; on screen it has ended all the same.
            self._listener.finished(self._live, text, reply)
            raise
        self._listener.finished(self._live, text, reply)

    def stop(self) -> None:
        """End it where it is; an engine that does not answer is not waited for."""
        self._stopped.set()
        if self._request is not None:
            self._say(STOPPING)
            self._request.cancel()
            asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._give_up)

    def _give_up(self) -> None:
        if self._request is not None and self._end is None:
            late = RequestCancelled(NOT_STOPPED).info()
            self._request.put(Failed(request=self._request.id, error=late))

    async def store_at_closing(self) -> None:
        """Store what has arrived, or the end that was not stored yet; the task is over by now."""
        stopped = self._live.so_far(ReplyState.STOPPED)
        await self._store(*(self._end or (self._live.text, stopped)))

    async def _store(self, text: str, reply: Reply) -> None:
        await self._database.run(messages.save_reply, self._live.message, text, reply)

    async def _save_again_and_again(self) -> None:
        stored: Length | None = None
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            if not self._live.saved:
                # A full disk may have room again in a second; at the end it is said.
                with contextlib.suppress(WaymarkError):
                    self._live.saved = True
                    stored = await self._save(stored)

    async def _save(self, stored: Length | None) -> Length:
        """Store what has arrived, the first time whole; `stored` is how much of it is."""
        live, length = self._live, self._live.length()
        if stored is None:
            await self._store(live.text, live.so_far(ReplyState.RUNNING))
        else:
            text, reply = live.gained(stored)
            await self._database.run(messages.append_to_reply, live.message, text, reply)
        return length

    async def _last_event(self) -> Finished | ErrorInfo | None:
        """How it ended; None when it was stopped before the engine had it."""
        while await self._model_ready():
            refusal = self._refusal()
            if refusal is not None:
                return refusal
            last = await self._ask()
            innocent = not self._begun and not self._stopped.is_set()
            if not (isinstance(last, ErrorInfo) and last.name == "EngineDiedError" and innocent):
                return last
            await self._engine.until(lambda status: not has_model(status))
        return None

    async def _model_ready(self) -> bool:
        """Wait for a model, saying so; False when the user has stopped waiting."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while not has_model(self._engine.status) and not stopped.done():
                self._say(self._engine.status.waiting_words())
                changed = asyncio.ensure_future(self._engine.until_other())
                await asyncio.wait({changed, stopped}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            return not stopped.done()
        finally:
            stopped.cancel()

    def _refusal(self) -> ErrorInfo | None:
        model = self._engine.model
        if model is None or model.vision or not has_pictures(self._conversation):
            return None
        return NoVisionError(unseen_pictures_words(model.name)).info()

    async def _ask(self) -> Finished | ErrorInfo:
        model, settings = self._engine.model, self._settings
        thinking = settings.thinking if model and model.thinking_switch else None
        self._live.model = model_name(model) if model is not None else ""
        self._say(WAITING)
        command = Generate(
            conversation=self._conversation,
            chat=self._key,
            sampling=settings.sampling,
            draft=settings.draft,
            format=self._live.format,
            thinking=thinking,
            cache=settings.cache,
        )
        self._request = self._engine.client.ask(command)
        async for event in self._request:
            if isinstance(event, Finished):
                return event
            if isinstance(event, Failed):
                return event.error
            self._on_event(event)
        raise AssertionError("a request ends with a last event")

    def _on_event(self, event: Answer) -> None:
        match event:
            case Queued():
                self._say(queued_words(event.ahead))
            case Prefilling():
                self._begun = True
                self._live.stats, self._live.done = event.stats, event.done
                self._live.opening = event.begun or self._live.opening
                self._say(reading_words(event))
            case Generated():
                self._begun = True
                self._listener.received(self._live, event)
                if self._live.done is not None or self._live.status:
                    self._live.done = None
                    self._say(STOPPING if self._stopped.is_set() else "")
            case _:
                pass

    def _say(self, words: str) -> None:
        self._live.status = words
        self._listener.progressed_with(self._live)

    def _ending(self, last: Finished | ErrorInfo | None) -> tuple[str, Reply]:
        live = self._live
        if isinstance(last, Finished) and last.reply.ids is not None:
            return last.reply.text, finished_reply(last, live)
        # Stopped before the engine had made its prompt: what a continued reply holds stays.
        if not isinstance(last, ErrorInfo) or last.name == "RequestCancelled":
            reply = live.so_far(ReplyState.STOPPED)
            return live.text, replace(reply, finish_reason="cancelled")
        # What has arrived stays: a reply that the engine broke off is a stopped one.
        arrived = live.text or live.reasoning
        state = ReplyState.STOPPED if arrived else ReplyState.FAILED
        reply = live.so_far(state, last)
        return live.text, replace(reply, finish_reason="error")


def finished_reply(event: Finished, live: LiveReply) -> Reply:
    """What the store keeps of the engine's last word."""
    return Reply(
        state=STATES.get(event.reason, ReplyState.COMPLETE),
        reasoning=event.reply.reasoning,
        ids=event.reply.ids,
        finish_reason=event.reason,
        stats=event.stats,
        format=live.format,
        model=live.model,
    )


def has_pictures(conversation: Conversation) -> bool:
    """Whether any message shows a picture."""
    return any(
        part.type == "image"
        for message in conversation.messages
        if message.role == "user"
        for part in message.content
    )


def has_model(status: EngineStatus) -> bool:
    """Whether a request would find a model."""
    return status.phase is Phase.READY and status.model is not None
