"""Has the engine read in idle time what the next message is sure to need.

A finished reply is settled, so that the next turn reads only the new message, and so is the reply
that ends a chat when it is opened; a draft with pictures is read ahead, so that Send finds it done.
Whatever it asks can be interrupted and costs nothing but idle time; if it fails, the request itself
reads what is missing and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from core.api.chat import Conversation
from core.api.errors import BudgetTooSmallError
from core.api.events import Failed, Prepared
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

SETTLED_STATES = (ReplyState.COMPLETE, ReplyState.STOPPED)


class AheadController(QObject):
    """Watches replies end, chats open and drafts change; `reading`, `settling` and `opening` are
    what was asked last.

    Signals:
        prepared(int | None, Prepared): what the engine holds, now that it has worked on the path
            that ends with this message (None: on the draft of a new chat).
    """

    prepared = Signal(object, object)

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
        self.opening: Request | None = None
        self._opened: int | None = None
        replies.ended.connect(self._on_end)
        pictures.changed.connect(self._on_pictures)
        chat.draft_changed.connect(self._on_draft)
        chat.transcript.chat_changed.connect(self._on_shown)
        chat.transcript.rows_replaced.connect(self._on_shown)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if self._settings.settings.ahead.settle and reply.state is not ReplyState.FAILED:
            self._tasks.spawn(self._settle(live), "Settling a reply")
        self._on_draft()

    def _on_shown(self) -> None:
        """Another path is on screen: make it ready to go on, unless a reply is on its way."""
        if self.opening is not None:
            self.opening.cancel()
            self.opening = None
        rows = self._chat.transcript.rows
        last = rows[-1].message if rows else None
        self._opened = last.id if last else None
        if last is None or last.reply is None or last.reply.state not in SETTLED_STATES:
            return
        if self._settings.settings.ahead.settle and self._chat.running is None:
            self._tasks.spawn(self._open(last.chat, [row.message for row in rows]), "Opening")

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
            await self._follow(self.settling, live.message)

    async def _open(self, chat: int, path: Sequence[Message]) -> None:
        conversation = await self._conversation(chat, path)
        end = path[-1].id
        # While the chat's age was read another may have been opened.
        if self._engine.model is None or self._opened != end or self._chat.running is not None:
            return
        self.opening = self._engine.client.settle(
            conversation, self._thinking(), self._settings.settings.cache
        )
        await self._follow(self.opening, end)

    async def _follow(self, request: Request, end: int | None) -> None:
        """Tell what became of idle work; one that was interrupted has nothing to tell."""
        async for event in request:
            if isinstance(event, Prepared):
                self._settings.note_outcome(None)
                self.prepared.emit(end, event)
            elif isinstance(event, Failed) and event.error.name == BudgetTooSmallError.__name__:
                self._settings.note_outcome(event.error)

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
        await self._follow(self.reading, path[-1].id if path else None)

    async def _conversation(self, chat: int | None, path: Sequence[Message]) -> Conversation:
        created = await self._database.run(messages.created, chat) if chat is not None else 0.0
        return conversation_of(path, created, self._blobs.path)

    def _thinking(self) -> bool | None:
        model = self._engine.model
        return self._settings.settings.thinking if model and model.thinking_switch else None
