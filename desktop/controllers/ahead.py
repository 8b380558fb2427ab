"""Has the engine read in idle time what the next message is sure to need.

A finished reply is settled, so that the next turn reads only the new message; a draft with pictures
is read ahead, so that Send finds it done. Whatever it asks can be interrupted and costs nothing but
idle time; if it fails, the request itself reads what is missing and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from core.api.chat import Conversation
from core.client.blobs import BlobStore
from core.client.requests import Request
from desktop.controllers.chat import ChatController
from desktop.controllers.conversation import conversation_of, draft_message
from desktop.controllers.engine import EngineController
from desktop.controllers.pictures import PictureController
from desktop.controllers.replies import Replies
from desktop.controllers.settings import SettingsController
from desktop.controllers.tasks import Tasks
from desktop.item_models.draft import Draft
from desktop.item_models.messages import LiveReply
from desktop.store import messages
from desktop.store.database import Database
from desktop.store.records import Message, Reply, ReplyState


class AheadController(QObject):
    """Watches replies end and drafts change; `reading` and `settling` are what was asked last."""

    def __init__(
        self,
        chat: ChatController,
        replies: Replies,
        pictures: PictureController,
        settings: SettingsController,
        engine: EngineController,
        database: Database,
        blobs: BlobStore,
        tasks: Tasks,
    ) -> None:
        super().__init__()
        self._chat = chat
        self._settings = settings
        self._engine = engine
        self._database = database
        self._blobs = blobs
        self._tasks = tasks
        self.reading: Request | None = None
        self.settling: Request | None = None
        replies.ended.connect(self._on_end)
        pictures.changed.connect(self._on_pictures)
        chat.draft_changed.connect(self._on_draft)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if self._settings.settings.ahead.settle and reply.state is not ReplyState.FAILED:
            self._tasks.spawn(self._settle(live), "Settling a reply")
        self._on_draft()

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._chat.draft:
            self._on_draft()

    def _on_draft(self) -> None:
        """The draft on screen is another one: what was asked for the old one is void."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None
        draft = self._chat.draft
        wanted = self._settings.settings.ahead.read_ahead and draft.pictures and draft.complete
        if wanted and self._chat.running is None:
            self._tasks.spawn(self._read(draft), "Reading ahead")

    async def _settle(self, live: LiveReply) -> None:
        path = await self._database.run(messages.read_path, live.chat)
        shown = path and path[-1].id == live.message
        if shown and self._engine.model is not None:
            conversation = await self._conversation(live.chat, path)
            settings = self._settings.settings
            self.settling = self._engine.client.settle(
                conversation, self._thinking(), settings.cache
            )

    async def _read(self, draft: Draft) -> None:
        chat = self._chat.transcript.chat
        path = await self._database.run(messages.read_path, chat) if chat is not None else []
        before = await self._conversation(chat, path)
        model = self._engine.model
        # While the path was read the draft may have been sent, or another chat shown.
        if model is None or not model.vision or draft is not self._chat.draft:
            return
        message = draft_message(draft.text.strip(), draft.ready_pictures(), self._blobs.path)
        conversation = before.model_copy(update={"messages": (*before.messages, message)})
        if self.reading is not None:
            self.reading.cancel()
        self.reading = self._engine.client.read_ahead(
            conversation, self._thinking(), self._settings.settings.cache
        )

    async def _conversation(self, chat: int | None, path: Sequence[Message]) -> Conversation:
        created = await self._database.run(messages.created, chat) if chat is not None else 0.0
        return conversation_of(path, created, self._blobs.path)

    def _thinking(self) -> bool | None:
        model = self._engine.model
        return self._settings.settings.thinking if model and model.thinking_switch else None
