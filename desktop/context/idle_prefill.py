"""Prefill while the engine is idle, so that the next message finds its context read.

Finished replies and opened chats are prefilled as later turns show them, near the context's end
also without the oldest turns; drafts if they have pictures, documents or long texts. Requests
interrupt this work; if it fails, the next one does it and reports the error.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from PySide6.QtCore import Signal

from core.api.chat import Conversation
from core.api.commands import PrefillDraft, PrefillReply
from core.api.errors import BudgetTooSmallError
from core.api.events import Failed, Prepared
from core.client.requests import Request
from desktop.chat.chat import ChatController
from desktop.chat.context_fill import ids_in_prompt
from desktop.chat.conversation import conversation_of, draft_message
from desktop.chat.transcript import LiveReply
from desktop.chats.chats import ChatsController
from desktop.context.limit import LimitController
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.services import Controller, Services
from desktop.store.settings import with_own
from desktop.store.tables import fields, messages
from desktop.store.tables.records import ChatPath, Message, Reply, ReplyState

# Drafts from this many characters on are prefilled: about a chunk of 512 tokens.
LONG_TEXT = 2_000
ID_BYTES = 4
SETTLED_STATES = (ReplyState.COMPLETE, ReplyState.STOPPED)


class IdlePrefill(Controller):
    # int | None, Prepared: the engine has prefilled the path that ends with this message (None:
    # the draft of a new chat).
    prepared = Signal(object, object)
    # A whole path and no more is prefilled: ids of its messages, and its tokens.
    settled = Signal(object, int)

    def __init__(
        self,
        services: Services,
        chat: ChatController,
        chats: ChatsController,
        limit: LimitController,
    ) -> None:
        super().__init__(services)
        self._chat = chat
        self._limit = limit
        # The last request for the draft, for an opened chat, and without the oldest turns.
        self._draft: Request[Prepared] | None = None
        self._opening: Request[Prepared] | None = None
        self.compacting: Request[Prepared] | None = None
        # The reply being edited, and how many of its ids are before the edit.
        self._begun: tuple[int, int] = (0, 0)
        # Requests by chat, to be cancelled when it changes or is deleted.
        self._requests: dict[int, list[Request[Prepared]]] = {}
        chat.replies.ended.connect(self._on_end)
        for changed in (chat.drafts.documents.changed, chat.drafts.pictures.changed):
            changed.connect(self._on_files)
        chat.draft_changed.connect(self._on_draft)
        chat.draft_typed.connect(self._on_typed)
        chat.reply_typed.connect(self._on_reply_typed)
        chat.transcript.chat_changed.connect(self._on_shown)
        chat.transcript.rows_replaced.connect(self._on_shown)
        # A newly loaded model hasn't read the chat on screen.
        self._engine.model_loaded.connect(lambda _model: self._on_shown())
        # A prefill after the deletion would bring its context back.
        chats.deleted.connect(self._cancel)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if self._settings.settings.ahead.settle and reply.state is not ReplyState.FAILED:
            self._tasks.spawn(self._settle(live), tr("Prefilling a reply"))
        self._on_draft()

    def _on_shown(self) -> None:
        """Also makes a fork a user of the shared cache: deleting the original chat then evicts
        nothing of it."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        rows = self._chat.transcript.rows
        last = rows[-1].message if rows else None
        if last is None or last.reply is None or last.reply.state not in SETTLED_STATES:
            return
        if self._settings.settings.ahead.settle and self._chat.running is None:
            self._tasks.spawn(self._open(last.chat, last.id), tr("Prefilling a chat"))

    def _cancel(self, chat: int) -> None:
        for request in self._requests.pop(chat, ()):
            request.cancel()

    def _on_files(self, draft: Draft) -> None:
        if draft is self._chat.draft:
            self._on_draft()

    def _on_typed(self) -> None:
        if len(self._chat.draft.text) >= LONG_TEXT:
            self._on_draft()

    def _on_reply_typed(self, message: int, text: str) -> None:
        row = self._chat.transcript.row_of(message)
        if row is not None and self._settings.settings.ahead.read_ahead:
            work = self._read_begun(row.message, text)
            self._tasks.spawn(work, tr("Prefilling a reply being edited"))

    def _on_draft(self) -> None:
        if self._draft is not None:
            self._draft.cancel()
            self._draft = None
        draft = self._chat.draft
        wanted = self._settings.settings.ahead.read_ahead and is_worth_prefilling(draft)
        if wanted and self._chat.place is None and self._chat.running is None:
            self._tasks.spawn(self._read(draft), tr("Prefilling the draft"))

    async def _settle(self, live: LiveReply) -> None:
        chat_path = await self._ending_with(live.chat, live.message)
        if chat_path is not None:
            await self._follow(self._prefill(live.chat, chat_path), live.message, chat_path)

    async def _open(self, chat: int, end: int) -> None:
        chat_path = await self._ending_with(chat, end)
        rows = self._chat.transcript.rows
        # Another chat may have been opened meanwhile.
        if chat_path is None or not rows or rows[-1].id != end or self._chat.running is not None:
            return
        self._opening = self._prefill(chat, chat_path)
        await self._follow(self._opening, end, chat_path)

    async def _ending_with(self, chat: int, message: int) -> ChatPath | None:
        """None unless it is still the last message and the loaded model answers this chat."""
        chat_path = await self._database.run(messages.read_chat, chat)
        if chat_path is None or not chat_path.path or self._engine.model is None:
            return None
        if chat_path.place is not None:
            return None
        return chat_path if chat_path.path[-1].id == message else None

    def _prefill(self, chat: int, chat_path: ChatPath) -> Request[Prepared]:
        self._cancel(chat)
        settling = self._ask_to_settle(chat_path)
        self._requests[chat] = [settling]
        shorter = self._limit.compacted(chat, chat_path)
        if shorter is not None:
            self.compacting = self._ask_to_settle(shorter)
            self._requests[chat].append(self.compacting)
        return settling

    def _ask_to_settle(self, chat_path: ChatPath) -> Request[Prepared]:
        conversation = conversation_of(chat_path, self._blobs.path)
        return self._ask(PrefillReply, conversation, chat_path)

    def _ask(
        self,
        kind: type[PrefillReply] | type[PrefillDraft],
        conversation: Conversation,
        of: ChatPath,
    ) -> Request[Prepared]:
        command = kind(
            conversation=conversation,
            chat=of.key,
            thinking=self._thinking(of),
            cache=self._settings.settings.cache,
        )
        return self._engine.client.ask(command)

    async def _follow(
        self, request: Request[Prepared], end: int | None, whole: ChatPath | None = None
    ) -> None:
        async for event in request:
            if isinstance(event, Prepared):
                self._settings.note_outcome(None)
                self.prepared.emit(end, event)
                end = event.parts[-1].end if event.parts else 0
                # Else its last message could not be prefilled.
                if whole is not None and end > max(event.message_starts, default=end):
                    self.settled.emit(ids_in_prompt(whole), end)
            elif isinstance(event, Failed) and event.error.name == BudgetTooSmallError.__name__:
                self._settings.note_outcome(event.error)

    async def _read_begun(self, message: Message, text: str) -> None:
        """Prefill up to the edit, where the new version goes on."""
        ids = await self._chat.edited_ids(message, fields.storable(text))
        place = self._chat.transcript.place_of(message.id)
        if ids is None or not ids.pauses or place is None or message.reply is None:
            return
        kept, chat = ids.pauses[-1], self._chat
        if self._begun == (message.id, kept) or chat.running is not None or chat.place is not None:
            return
        self._begun = message.id, kept
        begun = ids.model_copy(update={"data": ids.data[: kept * ID_BYTES]})
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(text, message.text, strict=False))
        same = "".join(each for each, _ in pairs)
        shown = replace(message, text=same, reply=replace(message.reply, ids=begun))
        before = self._chat.shown_path
        chat_path = replace(before, path=(*before.path[:place], shown))
        self._cancel(message.chat)
        request = self._ask_to_settle(chat_path)
        self._requests[message.chat] = [request]
        await self._follow(request, message.id)

    async def _read(self, draft: Draft) -> None:
        chat = self._chat.transcript.chat
        chat_path = await self._chat_path(chat, draft)
        model = self._engine.model
        # The draft may have been sent, or another chat opened, meanwhile.
        if chat_path is None or model is None or draft is not self._chat.draft:
            return
        if self._chat.place is not None:
            return
        if not is_worth_prefilling(draft):
            return
        if draft.pictures and not model.vision:
            return
        message = draft_message(draft.text.strip(), draft.attachments(), self._blobs.path)
        conversation = conversation_of(chat_path, self._blobs.path, message)
        if self._draft is not None:
            self._draft.cancel()
        self._draft = self._ask(PrefillDraft, conversation, chat_path)
        await self._follow(self._draft, chat_path.path[-1].id if chat_path.path else None)

    async def _chat_path(self, chat: int | None, draft: Draft) -> ChatPath | None:
        if chat is None:
            return ChatPath(key=draft.key, system=draft.system, settings=draft.settings)
        return await self._database.run(messages.read_chat, chat)

    def _thinking(self, of: ChatPath) -> bool | None:
        model, settings = self._engine.model, with_own(self._settings.settings, of.settings)
        return settings.thinking if model and model.thinking_switch else None


def is_worth_prefilling(draft: Draft) -> bool:
    read = sum(len(each.parts[place]) for each in draft.ready_documents() for place in each.places)
    is_long = len(draft.text) + read >= LONG_TEXT
    return draft.complete and (bool(draft.pictures) or is_long)
