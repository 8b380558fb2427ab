"""Actions on the shown chat: send, stop, regenerate, edit, continue, choose a version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Signal

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.chat import Message as ApiMessage
from core.api.errors import NoVisionError, WaymarkError
from desktop.chat.drafts import Drafts
from desktop.chat.message_queue import MessageQueue
from desktop.chat.replies import Replies
from desktop.chat.shown_chat import ShownChat
from desktop.chat.transcript import LiveReply
from desktop.documents.parts import prompt_text, too_long
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.services import Services
from desktop.store.tables import messages
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
    """Actions of the user on the shown chat.

    A message is in the store before the engine gets it. `refused(str)`: why nothing was sent.
    """

    refused = Signal(str)
    stored = Signal()

    def __init__(self, services: Services, replies: Replies, drafts: Drafts) -> None:
        super().__init__(services, replies, drafts)
        self._engine = services.engine
        self._blobs = services.blobs
        # Drafts on their way to the store, by chat: Enter may be pressed twice before they arrive.
        self._sending: dict[int | None, Draft] = {}
        self.queue = MessageQueue(drafts, replies, services.tasks, self._send)
        self.queue.changed.connect(self.draft_changed)

    def digests(self) -> set[str]:
        """The picture files that messages not sent yet need."""
        sending = [each for draft in self._sending.values() for each in draft.ready_pictures()]
        return self._drafts.digests() | {each.digest for each in sending}

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
            self._replies.stop(self.running.message)

    def regenerate(self, reply: int) -> None:
        row = self.transcript.row_of(reply)
        if row is not None and row.message.parent is not None:
            work = self._regenerate(row.message.chat, row.message.parent)
            self._tasks.spawn(work, tr("Regenerating"))

    def go_on(self, reply: int) -> None:
        """Continue the last reply, which was stopped or cut off."""
        row = self.transcript.row_of(reply)
        if row is not None and row.can_go_on:
            self._tasks.spawn(self._go_on(row.message), tr("Continuing a reply"))

    def edit(self, message: int, text: str) -> None:
        """Send another version of a message, with the pictures of its draft."""
        row = self.transcript.row_of(message)
        if row is None:
            return
        draft = self._drafts.edited(message)
        shown = row.message.attachments if draft is None else draft.attachments()
        if text.strip() or shown:
            self._tasks.spawn(self._edit(row.message, text.strip(), shown), tr("Sending again"))

    def choose(self, message: int) -> None:
        chat = self.transcript.chat
        if chat is not None:
            self._tasks.spawn(self._choose(chat, message), tr("Showing another version"))

    def pictures_with(self, digest: str) -> tuple[Picture, ...]:
        """The group of a picture: those of the draft, of the shown chat, or of edited messages."""
        shown = [each for row in self.transcript.rows for each in row.message.pictures]
        for group in (self.draft.ready_pictures(), shown, self._drafts.edited_pictures()):
            pictures = {each.digest: each for each in group}
            if digest in pictures:
                return tuple(pictures.values())
        return ()

    async def _send(self, chat: int | None, draft: Draft) -> None:
        """Send the chat's draft, or a message that was queued before it."""
        self._sending[chat] = draft
        taken, sent = draft is not self._drafts.of(chat), False
        try:
            if not draft.complete and not taken:
                self.refused.emit(tr("The message will be sent once its files are ready."))
            ready = await self._drafts.documents.settled(draft)
            if ready and (chat != self._wanted or self._sendable(draft)):
                if not taken:
                    taken = True
                    self._drafts.put(chat, Draft())
                    self.draft_changed.emit()
                sent = await self._store_and_begin(chat, draft)
            if taken and not sent:
                self._drafts.of(chat).queued.insert(0, draft)
        finally:
            self._sent(draft)
            if not sent:
                # The composer shows what was refused; the user decides again.
                self.queue.take_all_back(chat)

    def _sent(self, draft: Draft) -> None:
        self._sending = {chat: each for chat, each in self._sending.items() if each is not draft}

    async def _store_and_begin(self, chat: int | None, draft: Draft) -> bool:
        """Store a message and generate its reply; False if it could not be stored."""
        text, shown, left = draft.text.strip(), draft.attachments(), self._drafts.left(chat)
        try:
            turn = await self._database.run(
                messages.append_turn, chat, text, shown, draft.key, draft.system, left, draft.format
            )
        except WaymarkError as error:
            text = tr("{title}: {message} The message was not sent.")
            self.refused.emit(text.format(title=error.title, message=error.message))
            return False
        if chat is None and self._wanted is None:
            self._wanted = turn.chat
            # With what was typed meanwhile.
            typed = self._drafts.of(None)
            self._drafts.put(turn.chat, typed)
            self._drafts.put(None, Draft())
            self._drafts.save_soon(typed)
        await self._begin(turn)
        return True

    def _sendable(self, draft: Draft) -> bool:
        model = self._engine.model
        if model is not None and (words := too_long(draft.ready_documents(), model)):
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
        self.refused.emit(text.format(title=NoVisionError.title, model=model.name))
        return False

    async def _regenerate(self, chat: int, parent: int) -> None:
        await self._replies.stop_chat(chat)
        await self._begin(await self._database.run(messages.add_alternative, chat, parent))

    async def _go_on(self, message: Message) -> None:
        await self._drafts.store_instructions()
        chat_path = await self._database.run(messages.read_chat, message.chat)
        begun = message.id in self._replies.live
        if begun or chat_path is None or chat_path.path[-1].id != message.id:
            return
        self._generate(LiveReply.begun(chat_path.path[-1]), chat_path, chat_path)

    async def _edit(self, message: Message, text: str, shown: tuple[Attachment, ...]) -> None:
        await self._replies.stop_chat(message.chat)
        turn = await self._database.run(
            messages.add_turn, message.chat, message.parent, text, shown
        )
        # Not before: until then only the edit refers to the pictures that were added.
        self._drafts.end_edit(message.id)
        await self._begin(turn)

    async def _choose(self, chat: int, message: int) -> None:
        await self._database.run(messages.choose, message)
        await self.show_again(chat)

    async def _begin(self, turn: Turn) -> None:
        await self._drafts.store_instructions()
        chat_path = await self._database.run(messages.read_chat, turn.chat)
        if chat_path is not None:
            # The path may end with another reply by now.
            shown = chat_path.path[-1].reply
            begun = Reply(ReplyState.RUNNING, format=shown.format if shown else None)
            live = LiveReply(turn.reply, turn.chat, reply=begun)
            self._generate(live, chat_path, chat_path.before_last())
        self.stored.emit()

    def _generate(self, live: LiveReply, chat_path: ChatPath, prompt: ChatPath) -> None:
        conversation = conversation_of(prompt, self._blobs.path)
        self._replies.begin(live, conversation, chat_path.key)
        self._show_path(live.chat, chat_path)


PathOf = Callable[[str], Path]


def conversation_of(chat_path: ChatPath, picture_path: PathOf) -> Conversation:
    """The engine's view of a chat: its instructions and the messages in the prompt."""
    messages = [_message(message, picture_path) for message in chat_path.in_prompt]
    if chat_path.system:
        messages.insert(0, SystemMessage(text=chat_path.system))
    return Conversation(messages=tuple(messages), created=chat_path.created)


def _message(message: Message, picture_path: PathOf) -> ApiMessage:
    if message.reply is not None:
        return AssistantMessage(
            text=message.text, reasoning=message.reply.reasoning, ids=message.reply.ids
        )
    return draft_message(message.text, message.attachments, picture_path)


def draft_message(text: str, shown: Sequence[Attachment], picture_path: PathOf) -> UserMessage:
    """A user's message, sent or not: documents, then pictures, then text, so that another question
    leaves what is long as it was."""
    content: list[ContentPart] = [
        ImagePart(digest=each.digest, path=str(picture_path(each.digest)), name=each.name)
        for each in shown
        if isinstance(each, Picture)
    ]
    read = "\n\n".join(prompt_text(each) for each in shown if isinstance(each, Document))
    if read and content:
        content.insert(0, TextPart(text=f"{read}\n\n"))
    elif read:
        text = f"{read}\n\n{text}"
    if text or not content:
        content.append(TextPart(text=text))
    return UserMessage(content=tuple(content))
