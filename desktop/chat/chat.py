"""Actions on the shown chat: send, stop, edit, delete, continue, regenerate."""

from __future__ import annotations

import contextlib

from PySide6.QtCore import Signal

from core.api.chat import AssistantMessage, Conversation, ReplyIds
from core.api.commands import EditReply
from core.api.errors import NoVisionError, WaymarkError
from core.api.model_info import ModelInfo
from desktop.chat.conversation import api_message, before_reply, conversation_of
from desktop.chat.drafts import Drafts
from desktop.chat.message_queue import MessageQueue
from desktop.chat.replies import Replies
from desktop.chat.shown_chat import ShownChat
from desktop.chat.transcript import LiveReply
from desktop.documents.parts import not_sendable
from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.services import Services
from desktop.store.tables import fields, message_tree, messages
from desktop.store.tables.message_tree import Moved
from desktop.store.tables.messages import Turn
from desktop.store.tables.records import (
    Attachment,
    ChatPath,
    Document,
    Message,
    Picture,
    Reply,
    ReplyState,
)


class ChatController(ShownChat):
    """A message is stored before the engine gets it.

    `refused(str)`: why nothing was sent. `said(str)`: why nothing was done.
    `deleted(DeletedMessages)`: they went to the trash. `moved(Moved)`: they follow another version
    now.
    """

    refused = Signal(str)
    stored = Signal()
    deleted = Signal(object)
    moved = Signal(object)
    said = Signal(str)

    def __init__(self, services: Services, replies: Replies, drafts: Drafts) -> None:
        super().__init__(services, replies, drafts)
        # Drafts on their way to the store, by chat: Enter may be pressed twice before they arrive.
        self._sending: dict[int | None, Draft] = {}
        self.queue = MessageQueue(drafts, replies, self._tasks, self._send)
        self.queue.changed.connect(self.draft_changed)

    def digests(self) -> set[str]:
        """The picture files that unsent messages need."""
        sending = [each for draft in self._sending.values() for each in draft.ready_pictures()]
        return self.drafts.digests() | {each.digest for each in sending}

    def send(self) -> None:
        """Send the draft, or queue it while a reply is in progress."""
        sending = self._sending.get(self._wanted)
        if self.draft.empty or sending is self.draft:
            return
        if self.running is not None or sending is not None:
            self.queue.add(self._wanted)
            return
        self._sending[self._wanted] = self.draft
        self._tasks.spawn(self._send(self._wanted, self.draft), tr("Sending"))

    def take_back(self, message: Draft) -> None:
        self.queue.take_back(self._wanted, message)

    def stop(self) -> None:
        if self.running is not None:
            self.replies.stop(self.running.message)

    def regenerate(self, message: int) -> None:
        """Write another version of this reply, or a reply to this message."""
        row = self.transcript.row_of(message)
        if row is None:
            return
        parent = row.message.parent if row.message.is_reply else row.id
        if parent is not None:
            self._tasks.spawn(
                self._regenerate(row.message.chat, parent), tr("Writing another reply")
            )

    def go_on(self, reply: int) -> None:
        row = self.transcript.row_of(reply)
        if row is not None and row.can_go_on:
            self._tasks.spawn(self._go_on(row.message), tr("Continuing a reply"))

    def edit(self, message: int, text: str) -> None:
        """Send another version of a message with its draft's pictures, or store a reply's."""
        row = self.transcript.row_of(message)
        if row is None:
            return
        if row.message.is_reply:
            self._tasks.spawn(self._edit_reply(row.message, text), tr("Editing a reply"))
            return
        draft = self.drafts.edited(message)
        shown = row.message.attachments if draft is None else draft.attachments()
        documents = [each for each in shown if isinstance(each, Document)]
        if words := not_sendable(documents, self._here):
            # The edit is kept: it can be opened again.
            self.refused.emit(words)
        elif text.strip() or shown:
            self._tasks.spawn(self._edit(row.message, text.strip(), shown), tr("Sending again"))

    def delete(self, message: int, answers: bool) -> None:
        """With `answers` also the replies to it."""
        row = self.transcript.row_of(message)
        if row is not None:
            work = self._delete(row.message.chat, message, answers)
            self._tasks.spawn(work, tr("Deleting a message"))

    def insert(self, message: int, above: bool, question: str, answer: str) -> None:
        row = self.transcript.row_of(message)
        if row is not None:
            parent = row.message.parent if above else row.id
            work = self._insert(row.message.chat, parent, question, answer)
            self._tasks.spawn(work, tr("Inserting messages"))

    def take_over(self, message: int) -> None:
        """Move the messages that follow another version here."""
        row = self.transcript.row_of(message)
        if row is not None:
            self._tasks.spawn(self._take_over(row.message), tr("Moving messages"))

    def move(self, moved: Moved) -> None:
        self._tasks.spawn(self._move(moved), tr("Moving messages"))

    def choose(self, message: int) -> None:
        chat = self.transcript.chat
        if chat is not None:
            work = self._change(chat, messages.choose, message)
            self._tasks.spawn(work, tr("Showing another version"))

    def pictures_with(self, digest: str) -> tuple[Picture, ...]:
        """The pictures of the draft, the chat or the edited messages, whichever have this one."""
        shown = [each for row in self.transcript.rows for each in row.message.pictures]
        for group in (self.draft.ready_pictures(), shown, self.drafts.edited_pictures()):
            pictures = {each.digest: each for each in group}
            if digest in pictures:
                return tuple(pictures.values())
        return ()

    async def _send(self, chat: int | None, draft: Draft) -> None:
        self._sending[chat] = draft
        taken, turn = draft is not self.drafts.of(chat), None
        try:
            if not draft.complete and not taken:
                self.refused.emit(tr("The message will be sent once its files are ready."))
            ready = await self.drafts.documents.settled(draft)
            if ready and (chat != self._wanted or self._sendable(draft)):
                if not taken:
                    taken = True
                    self.drafts.put(chat, self.drafts.fresh(chat))
                    self.draft_changed.emit()
                turn = await self._store(chat, draft)
                if turn is not None:
                    await self._begin(turn)
        finally:
            sending = self._sending.items()
            self._sending = {key: each for key, each in sending if each is not draft}
            if turn is None:
                # The composer shows what was refused; the user decides again.
                if taken:
                    self.drafts.of(chat).queued.insert(0, draft)
                self.queue.take_all_back(chat)

    async def _store(self, chat: int | None, draft: Draft) -> Turn | None:
        """None if the message could not be stored."""
        try:
            turn = await self._database.run(
                messages.append_turn,
                chat,
                draft.text.strip(),
                draft.attachments(),
                self.drafts.left(chat),
                draft.key,
                draft.begin,
                self._remote.new_chats if chat is None else None,
                draft.folder.id if draft.folder else None,
            )
        except WaymarkError as error:
            text = tr("{title}: {message} The message was not sent.")
            title, message = in_language(error.info().title), in_language(error.message)
            self.refused.emit(text.format(title=title, message=message))
            return None
        if chat is None and self._wanted is None:
            self._wanted = turn.chat
            # With what was typed meanwhile.
            typed = self.drafts.of(None)
            self.drafts.put(turn.chat, typed)
            self.drafts.put(None, self.drafts.fresh(None))
            self.drafts.save_soon(typed)
        return turn

    @property
    def _here(self) -> ModelInfo | None:
        """None for a chat on a server, which says itself what it refuses."""
        return self._engine.model if self.place is None else None

    def _sendable(self, draft: Draft) -> bool:
        model = self._here
        if words := not_sendable(draft.ready_documents(), model):
            self.refused.emit(words)
            return False
        rows = self.transcript.rows
        pictures = draft.pictures or any(row.message.pictures for row in rows)
        if model is None or model.vision or not pictures:
            return True
        text = (
            tr("{title}: {model}. Remove the picture, or load a model that can.")
            if draft.pictures
            else tr("{title}: {model}. Start a new chat, or load a model that can.")
        )
        title = in_language(NoVisionError.title)
        self.refused.emit(text.format(title=title, model=model.name))
        return False

    async def _regenerate(self, chat: int, parent: int) -> None:
        await self.replies.stop_chat(chat)
        await self._begin(await self._database.run(messages.add_alternative, chat, parent))

    async def _go_on(self, message: Message) -> None:
        await self.drafts.store_instructions()
        chat_path = await self._database.run(messages.read_chat, message.chat)
        begun = message.id in self.replies.live
        if begun or (chat_path is not None and chat_path.place is not None):
            return
        if chat_path is None or not chat_path.path or chat_path.path[-1].id != message.id:
            return
        conversation = conversation_of(chat_path, self._blobs.path)
        self._generate(LiveReply.begun(chat_path.path[-1]), chat_path, conversation)

    async def _edit(self, message: Message, text: str, shown: tuple[Attachment, ...]) -> None:
        await self.replies.stop_chat(message.chat)
        turn = await self._database.run(
            messages.add_turn, message.chat, message.parent, text, shown
        )
        # Not before: until then only the edit refers to the pictures that were added.
        self.drafts.end_edit(message.id)
        await self._begin(turn)

    async def _edit_reply(self, message: Message, text: str) -> None:
        if text != message.text:
            await self.replies.stop_chat(message.chat)
            ids = await self.edited_ids(message, fields.storable(text))
            await self._database.run(message_tree.edit_reply, message, text, ids)
        self.drafts.end_edit(message.id)
        await self.show_again(message.chat)
        self.stored.emit()

    async def edited_ids(self, message: Message, text: str) -> ReplyIds | None:
        """Keep the ids before the edit, so that they are reused; None without the model that wrote
        the reply."""
        reply, model = api_message(message, self._blobs.path), self._engine.model
        ids = message.reply.ids if message.reply else None
        if model is None or ids is None or ids.tokenizer != model.tokenizer:
            return None
        with contextlib.suppress(WaymarkError):
            assert isinstance(reply, AssistantMessage)
            return (await self._engine.client.ask(EditReply(reply=reply, text=text)).last()).ids
        return None

    async def _delete(self, chat: int, message: int, answers: bool) -> None:
        await self.replies.stop_chat(chat)
        gone = await self._database.run(message_tree.delete, chat, message, answers)
        self.drafts.end_edit(message)
        await self.show_again(chat)
        self.stored.emit()
        if gone is not None:
            self.deleted.emit(gone)

    async def _insert(self, chat: int, parent: int | None, question: str, answer: str) -> None:
        await self.replies.stop_chat(chat)
        await self._change(chat, message_tree.insert, chat, parent, question, answer)
        self.stored.emit()

    async def _take_over(self, message: Message) -> None:
        found = await self._database.run(message_tree.followers, message)
        if found is None:
            self.said.emit(tr("No messages follow another version."))
            return
        await self._move(found)
        self.moved.emit(found)

    async def _move(self, moved: Moved) -> None:
        await self.replies.stop_chat(moved.chat)
        await self._change(moved.chat, message_tree.move, moved)

    async def _begin(self, turn: Turn) -> None:
        await self.drafts.store_instructions()
        chat_path = await self._database.run(messages.read_chat, turn.chat)
        if chat_path is not None:
            # The path may end with another reply by now.
            shown = chat_path.path[-1].reply
            begun = Reply(ReplyState.RUNNING, format=shown.format if shown else None)
            live = LiveReply(turn.reply, turn.chat, reply=begun)
            conversation = before_reply(chat_path.before_last(), self._blobs.path)
            self._generate(live, chat_path, conversation)
        self.stored.emit()

    def _generate(self, live: LiveReply, chat_path: ChatPath, conversation: Conversation) -> None:
        self.replies.begin(live, conversation, chat_path)
        self._show_path(live.chat, chat_path)
