"""One message to two models, one after the other; then the present model is loaded again.

Only a reply that the user keeps becomes a chat, and what the engine cached is deleted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from PySide6.QtCore import Signal

from core.api.chat import Conversation
from core.api.commands import Generate
from core.api.errors import ErrorInfo, NoVisionError, RequestCancelled, WaymarkError
from core.api.events import Answer, Failed, Finished, Generated, Prefilling, Queued
from core.api.model_info import ModelInfo
from core.client.requests import Request
from desktop.chat.conversation import draft_message, has_pictures
from desktop.chat.replies import prefill_text, queued_text
from desktop.chat.transcript import LiveReply
from desktop.engine.engine_status import Phase, model_name, shown_name
from desktop.i18n import tr
from desktop.services import Controller, Services
from desktop.store.tables import chats, fields, messages, replies
from desktop.store.tables.records import Attachment, Document, Reply

# The owner of what the engine caches for a comparison.
KEY = "compare"


class Side:
    """The model at a path and its reply: `live` while it is written, then `reply` as well."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = shown_name(path)
        self.live = LiveReply(0, 0)
        self.model: ModelInfo | None = None
        self.reply: Reply | None = None
        self.text = ""
        self.kept = False


class CompareController(Controller):
    # Other sides.
    begun = Signal()
    # The status, the numbers or the end of a side.
    changed = Signal()
    # A reply became a chat.
    kept = Signal()

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.settings = services.settings
        self.sides: tuple[Side, ...] = ()
        self.running = self.stopping = False
        self._asked: tuple[str, tuple[Attachment, ...]] = ("", ())
        self._request: Request[Finished] | None = None

    @property
    def can_start(self) -> bool:
        """False while a model is on its way."""
        return not self.running and self._engine.status.phase in (Phase.READY, Phase.EMPTY)

    def start(self, paths: tuple[str, str], text: str, attached: Sequence[Attachment]) -> None:
        if not self.can_start:
            return
        self.running, self.stopping = True, False
        self.sides = tuple(map(Side, paths))
        self.sides[1].live.status = tr("Waiting for the first model")
        self._engine.lend()
        self.begun.emit()
        self._asked = text, attached = fields.storable(text), tuple(attached)
        message = draft_message(text, attached, self._blobs.path)
        conversation = Conversation(messages=(message,), created=time.time())
        self._tasks.spawn(self._run(conversation), tr("Comparing two models"))

    def stop(self) -> None:
        if self.running and not self.stopping:
            self.stopping = True
            self._engine.cancel_load()
            if self._request is not None:
                self._request.cancel()
            self.changed.emit()

    def digests(self) -> set[str]:
        """Files of a reply that may be kept."""
        return {each.digest for each in self._asked[1]}

    def forget(self) -> None:
        self.stop()
        self.sides, self._asked = (), ("", ())

    def keep(self, side: Side) -> None:
        if side.reply is not None and not side.kept:
            side.kept = True
            self._tasks.spawn(self._keep(side, side.reply), tr("Keeping a reply"))
            self.changed.emit()

    async def _keep(self, side: Side, reply: Reply) -> None:
        try:
            await self._database.run(_add_chat, *self._asked, side.text, reply)
        except WaymarkError:
            side.kept = False
            self.changed.emit()
            raise
        self.kept.emit()

    async def _run(self, conversation: Conversation) -> None:
        try:
            for side in self.sides:
                await self._answer(side, conversation)
        finally:
            self.running = False
            if not self._tasks.closed:
                await self._engine.take_back()
            self.changed.emit()

    async def _answer(self, side: Side, conversation: Conversation) -> None:
        last: Finished | ErrorInfo
        try:
            self._say(side, tr("Waiting for the engine"))
            # Before there is anything, so that it is deleted after a crash, too.
            await self._database.run(chats.forget_later, KEY)
            await self._engine.until_settled()
            side.model = await self._load(side)
            last = await self._reply(side, side.model, conversation)
        except WaymarkError as error:
            last = error.info()
        side.live.show_arrived()
        side.live.status = ""
        side.text, side.reply = side.live.ending(last)
        self.changed.emit()

    async def _load(self, side: Side) -> ModelInfo:
        client, settings = self._engine.client, self.settings.to_load(side.path)
        self._check()
        # After a crash the client loads the last model again.
        client.cancel_load()
        if client.model is not None and client.wanted == settings:
            return client.model

        def tell(done: int, total: int) -> None:
            percent = 100 * done // max(1, total)
            self._say(side, tr("Loading the model: {percent} %").format(percent=percent))

        self._say(side, tr("Loading the model"))
        return await client.load(settings, tell)

    async def _reply(
        self, side: Side, model: ModelInfo, conversation: Conversation
    ) -> Finished | ErrorInfo:
        self._check()
        if has_pictures(conversation) and not model.vision:
            words = tr("The message has pictures, and {model} can't see them.")
            raise NoVisionError(words.format(model=model.name))
        settings = self.settings.settings.switched(side.path)
        side.live.model = model_name(model)
        self._request = self._engine.client.ask(
            Generate(
                conversation=conversation,
                chat=KEY,
                sampling=settings.sampling,
                draft=settings.draft,
                thinking=settings.thinking if model.thinking_switch else None,
                cache=settings.cache,
            )
        )
        self._say(side, tr("Waiting for the engine"))
        try:
            async for event in self._request:
                if isinstance(event, Finished):
                    return event
                if isinstance(event, Failed):
                    return event.error
                self._hear(side, event)
        finally:
            # Nothing else ends it when Waymark is closed.
            self._request.cancel()
            self._request = None
        raise AssertionError("a request ends with a last event")

    def _check(self) -> None:
        if self.stopping:
            raise RequestCancelled(tr("Stopped."))

    def _hear(self, side: Side, event: Answer) -> None:
        match event:
            case Queued():
                self._say(side, queued_text(event.ahead))
            case Prefilling():
                side.live.stats = event.stats
                self._say(side, prefill_text(event))
            case Generated():
                side.live.take(event)
                self._say(side, "")
            case _:
                pass

    def _say(self, side: Side, words: str) -> None:
        side.live.status = tr("Stopping") if self.stopping else words
        self.changed.emit()


def _add_chat(
    connection: sqlite3.Connection,
    text: str,
    attached: Sequence[Attachment],
    answer: str,
    reply: Reply,
) -> None:
    names = (each.name for each in attached if isinstance(each, Document))
    title = chats.title_from(text or next(names, ""))
    chat = chats.create(connection, f"{reply.model}: {title}")
    turn = messages.add_turn(connection, chat, None, text, attached)
    replies.save(connection, turn.reply, answer, reply)
