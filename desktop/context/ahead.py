"""Has the engine read in idle time what the next message is sure to need.

A finished reply is settled, so that the next turn reads only the new message, and so is the reply
that ends a chat when it is opened; a draft with pictures or a long text is read ahead, so that Send
finds it done.
Near the context's end a chat is read without its oldest turns too, so that leaving them out costs
nothing. Whatever it asks can be interrupted and costs nothing but idle time; if it fails, the
request itself reads what is missing and says what is wrong.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from core.api.chat import Conversation
from core.api.commands import PrefillDraft, PrefillReply
from core.api.errors import BudgetTooSmallError
from core.api.events import Failed, Prepared
from core.client.requests import Request
from desktop.chat.chat import ChatController, conversation_of, draft_message
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chats import ChatsController
from desktop.context.limit import LimitController
from desktop.pictures.draft import Draft
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables import messages
from desktop.store.tables.records import ChatPath, Reply, ReplyState

# Characters of a draft from which reading ahead is worth it: about a grid step of 512 tokens.
LONG_TEXT = 2_000
SETTLED_STATES = (ReplyState.COMPLETE, ReplyState.STOPPED)


class AheadController(QObject):
    """Watches replies end, chats open, models come up and drafts change.

    `reading`, `settling`, `opening` and `compacting` are what was asked last: the draft, a reply
    that ended, one that ends an opened chat, and a chat without its oldest turns.

    Signals:
        prepared(int | None, Prepared): what the engine holds, now that it has worked on the path
            that ends with this message (None: on the draft of a new chat).
    """

    prepared = Signal(object, object)

    def __init__(
        self,
        services: Services,
        chat: ChatController,
        chats: ChatsController,
        limit: LimitController,
        replies: Replies,
        pictures: PictureController,
    ) -> None:
        super().__init__()
        self._chat = chat
        self._limit = limit
        self._settings = services.settings
        self._engine = services.engine
        self._database = services.database
        self._blobs = services.blobs
        self._tasks = services.tasks
        self.reading: Request[Prepared] | None = None
        self.settling: Request[Prepared] | None = None
        self.opening: Request[Prepared] | None = None
        self.compacting: Request[Prepared] | None = None
        self._opened: int | None = None
        # What was asked to be settled, by chat.
        self._idle: dict[int, list[Request[Prepared]]] = {}
        replies.ended.connect(self._on_end)
        pictures.changed.connect(self._on_pictures)
        chat.draft_changed.connect(self._on_draft)
        chat.draft_typed.connect(self._on_typed)
        chat.transcript.chat_changed.connect(self._on_shown)
        chat.transcript.rows_replaced.connect(self._on_shown)
        # A model that came up or came back knows nothing of the chat on screen.
        services.engine.model_loaded.connect(lambda _model: self._on_shown())
        # What is read after a chat is forgotten would be there again.
        chats.deleted.connect(self._take_back)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if self._settings.settings.ahead.settle and reply.state is not ReplyState.FAILED:
            self._tasks.spawn(self._settle(live), "Settling a reply")
        self._on_draft()

    def _on_shown(self) -> None:
        """Another path is on screen: make it ready to go on, unless a reply is on its way.

        A fork is opened at once. So the cache knows it as a user of what it shares, and deleting
        the chat it came from costs it nothing.
        """
        if self.opening is not None:
            self.opening.cancel()
            self.opening = None
        rows = self._chat.transcript.rows
        last = rows[-1].message if rows else None
        self._opened = last.id if last else None
        if last is None or last.reply is None or last.reply.state not in SETTLED_STATES:
            return
        if self._settings.settings.ahead.settle and self._chat.running is None:
            self._tasks.spawn(self._open(last.chat, last.id), "Opening")

    def _take_back(self, chat: int) -> None:
        for request in self._idle.pop(chat, ()):
            request.cancel()

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._chat.draft:
            self._on_draft()

    def _on_typed(self) -> None:
        """The user paused: a long text is worth reading as far as it will hardly change."""
        if len(self._chat.draft.text) >= LONG_TEXT:
            self._on_draft()

    def _on_draft(self) -> None:
        """The draft on screen is another one: what was asked for the old one is void."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None
        draft = self._chat.draft
        worth_it = draft.complete and (draft.pictures or len(draft.text) >= LONG_TEXT)
        wanted = self._settings.settings.ahead.read_ahead and worth_it
        if wanted and self._chat.running is None:
            self._tasks.spawn(self._read(draft), "Reading ahead")

    async def _settle(self, live: LiveReply) -> None:
        chat_path = await self._ending_with(live.chat, live.message)
        if chat_path is not None:
            self.settling = self._ask_to_settle(live.chat, chat_path)
            await self._follow(self.settling, live.message)

    async def _open(self, chat: int, end: int) -> None:
        chat_path = await self._ending_with(chat, end)
        # While the path was read another may have been opened.
        if chat_path is None or self._opened != end or self._chat.running is not None:
            return
        self.opening = self._ask_to_settle(chat, chat_path)
        await self._follow(self.opening, end)

    async def _ending_with(self, chat: int, message: int) -> ChatPath | None:
        """A chat's path, if this message still ends it and there is a model to read it."""
        chat_path = await self._database.run(messages.read_chat, chat)
        if chat_path is None or not chat_path.path or self._engine.model is None:
            return None
        return chat_path if chat_path.path[-1].id == message else None

    def _ask_to_settle(self, chat: int, chat_path: ChatPath) -> Request[Prepared]:
        """Have a path settled; then, near the context's end, what may be left of it."""
        # What was asked for an earlier end of the chat, and not done yet, is void.
        self._take_back(chat)
        settling = self._settled(chat_path)
        self._idle[chat] = [settling]
        shorter = self._limit.compacted(chat, chat_path)
        if shorter is not None:
            self.compacting = self._settled(shorter)
            self._idle[chat].append(self.compacting)
        return settling

    def _settled(self, chat_path: ChatPath) -> Request[Prepared]:
        conversation = conversation_of(chat_path, self._blobs.path)
        return self._ask(PrefillReply, conversation, chat_path.key)

    def _ask(
        self, kind: type[PrefillReply] | type[PrefillDraft], conversation: Conversation, key: str
    ) -> Request[Prepared]:
        command = kind(
            conversation=conversation,
            chat=key,
            thinking=self._thinking(),
            cache=self._settings.settings.cache,
        )
        return self._engine.client.ask(command)

    async def _follow(self, request: Request[Prepared], end: int | None) -> None:
        """Tell what became of idle work; one that was interrupted has nothing to tell."""
        async for event in request:
            if isinstance(event, Prepared):
                self._settings.note_outcome(None)
                self.prepared.emit(end, event)
            elif isinstance(event, Failed) and event.error.name == BudgetTooSmallError.__name__:
                self._settings.note_outcome(event.error)

    async def _read(self, draft: Draft) -> None:
        chat = self._chat.transcript.chat
        chat_path = await self._chat_path(chat, draft)
        model = self._engine.model
        # While the path was read the draft may have been sent, or another chat shown.
        if chat_path is None or model is None or draft is not self._chat.draft:
            return
        if draft.pictures and not model.vision:
            return
        message = draft_message(draft.text.strip(), draft.ready_pictures(), self._blobs.path)
        before = conversation_of(chat_path, self._blobs.path)
        conversation = before.model_copy(update={"messages": (*before.messages, message)})
        if self.reading is not None:
            self.reading.cancel()
        self.reading = self._ask(PrefillDraft, conversation, chat_path.key)
        await self._follow(self.reading, chat_path.path[-1].id if chat_path.path else None)

    async def _chat_path(self, chat: int | None, draft: Draft) -> ChatPath | None:
        if chat is None:
            return ChatPath(key=draft.key, system=draft.system)
        return await self._database.run(messages.read_chat, chat)

    def _thinking(self) -> bool | None:
        model = self._engine.model
        return self._settings.settings.thinking if model and model.thinking_switch else None
