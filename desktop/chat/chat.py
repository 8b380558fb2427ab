"""Acts on the shown chat: send, stop, regenerate, edit and resend, choose an alternative.

A message is in the store before the engine hears of it. Knows the order of things; what is on
screen is `shown_chat`, how a reply comes about is `replies`.
"""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import Signal

from core.api.errors import WaymarkError
from desktop.chat.conversation import conversation_of
from desktop.chat.drafts import Drafts
from desktop.chat.edits import Edits
from desktop.chat.instructions import Instructions
from desktop.chat.message_queue import MessageQueue
from desktop.chat.messages import LiveReply
from desktop.chat.replies import Replies
from desktop.chat.shown_chat import ShownChat
from desktop.chat.transcript import Transcript
from desktop.pictures.draft import Draft
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables import messages, turns
from desktop.store.tables.records import Message, Picture
from desktop.store.tables.turns import Turn
from desktop.words.conversation import LOOKING, no_vision_words, not_sent_words


class ChatController(ShownChat):
    """What the user may ask of the chat in the transcript.

    Signals:
        refused(str): why nothing was sent.
        stored(): messages were added to a chat; its place in the list may change.
    """

    refused = Signal(str)
    stored = Signal()

    def __init__(
        self,
        services: Services,
        transcript: Transcript,
        replies: Replies,
        pictures: PictureController,
        drafts: Drafts,
        edits: Edits,
        instructions: Instructions,
    ) -> None:
        super().__init__(services, transcript, replies, drafts, instructions)
        self._pictures = pictures
        self._edits = edits
        self._settings = services.settings
        self._blobs = services.blobs
        # By chat, the draft on its way to the store; Enter may be pressed twice before it is there.
        self._sending: dict[int | None, Draft] = {}
        self.queue = MessageQueue(drafts, pictures, replies, services.tasks, self._send_queued)
        self.queue.changed.connect(self.draft_changed)

    def digests(self) -> set[str]:
        """The pictures of messages not sent yet."""
        sending = [each for draft in self._sending.values() for each in draft.ready_pictures()]
        unsent = self._drafts.digests() | self._edits.digests()
        return unsent | {each.digest for each in sending}

    def forget(self, gone: Collection[int]) -> None:
        """These chats are gone for good, and so is what was typed in them."""
        super().forget(gone)
        for chat in gone:
            self._edits.forget(chat)

    def forget_everything(self) -> None:
        """No chat is left, and nothing of what was typed in any."""
        self._edits.clear()
        super().forget_everything()

    def send(self) -> None:
        """Send the draft of the shown chat; while a reply is on its way it waits for its end."""
        sending = self._sending.get(self._wanted)
        if self.draft.empty or sending is self.draft:
            return
        if self.running is not None or sending is not None:
            self.queue.add(self._wanted)
            return
        self._sending[self._wanted] = self.draft
        self._tasks.spawn(self._send(self._wanted, self.draft), "Sending")

    def take_back(self, message: Draft) -> None:
        """Put a queued message of the shown chat back into the composer."""
        self.queue.take_back(self._wanted, message)

    def stop(self) -> None:
        if self.running is not None:
            self._replies.stop(self.running.message)

    def regenerate(self, reply: int) -> None:
        """Another reply beside this one."""
        row = self.transcript.row_of(reply)
        if row is not None and row.message.parent is not None:
            work = self._regenerate(row.message.chat, row.message.parent)
            self._tasks.spawn(work, "Regenerating")

    def go_on(self, reply: int) -> None:
        """Have the last reply, stopped or cut off, written on."""
        row = self.transcript.row_of(reply)
        if row is not None and row.can_go_on:
            self._tasks.spawn(self._go_on(row.message), "Going on with a reply")

    def edit(self, message: int, text: str) -> None:
        """The message with other words and pictures, beside the old one, with its own reply."""
        row = self.transcript.row_of(message)
        if row is None:
            return
        draft = self._edits.of(message)
        shown = row.message.pictures if draft is None else draft.ready_pictures()
        if text.strip() or shown:
            self._tasks.spawn(self._edit(row.message, text.strip(), shown), "Sending again")

    def choose(self, message: int) -> None:
        """Show this alternative, and what follows it."""
        chat = self.transcript.chat
        if chat is not None:
            self._tasks.spawn(self._choose(chat, message), "Turning to another version")

    def pictures_with(self, digest: str) -> tuple[Picture, ...]:
        """The pictures among which this one is, each once: those of the draft, of the shown chat,
        or of messages being edited."""
        shown = [each for row in self.transcript.rows for each in row.message.pictures]
        for group in (self.draft.ready_pictures(), shown, self._edits.ready_pictures()):
            pictures = {each.digest: each for each in group}
            if digest in pictures:
                return tuple(pictures.values())
        return ()

    # How it is done.

    async def _send(self, chat: int | None, draft: Draft) -> None:
        sent = False
        try:
            if not draft.complete:
                self.refused.emit(LOOKING)
            # What was refused stands beside the composer; the user decides again.
            if await self._pictures.settled(draft) and self._sendable(draft):
                self._put_draft(chat, Draft())
                sent = await self._store_and_begin(chat, draft)
                if not sent:
                    self._drafts.of(chat).queued.insert(0, draft)
        finally:
            self._sent(draft)
            if not sent:
                self.queue.take_all_back(chat)

    async def _send_queued(self, chat: int, draft: Draft) -> bool:
        """Send a message that has waited; says whether it is on its way."""
        self._sending[chat] = draft
        try:
            shown = chat == self._wanted
            if not await self._pictures.settled(draft) or (shown and not self._sendable(draft)):
                return False
            return await self._store_and_begin(chat, draft)
        finally:
            self._sent(draft)

    def _sent(self, draft: Draft) -> None:
        """A draft is in the store, or came back from there."""
        self._sending = {chat: each for chat, each in self._sending.items() if each is not draft}

    async def _store_and_begin(self, chat: int | None, draft: Draft) -> bool:
        """Store a message and ask for its reply; says whether it is in the store."""
        text, shown, left = draft.text.strip(), draft.ready_pictures(), self._drafts.left(chat)
        try:
            turn = await self._database.run(
                turns.append_turn, chat, text, shown, draft.key, draft.system, left, draft.format
            )
        except WaymarkError as error:
            self.refused.emit(not_sent_words(error))
            return False
        if chat is None and self._wanted is None:
            self._wanted = turn.chat
            # What was typed meanwhile goes along.
            self._drafts.put(turn.chat, self._drafts.of(None))
            self._drafts.put(None, Draft())
        await self._begin(turn)
        self._sent(draft)
        self.stored.emit()
        return True

    def _sendable(self, draft: Draft) -> bool:
        model = self._settings.engine.model
        rows = self.transcript.rows
        pictures = draft.pictures or any(row.message.pictures for row in rows)
        if model is None or model.vision or not pictures:
            return True
        self.refused.emit(no_vision_words(model.name, bool(draft.pictures)))
        return False

    async def _regenerate(self, chat: int, parent: int) -> None:
        await self._replies.stop_chat(chat)
        await self._begin(await self._database.run(turns.add_alternative, chat, parent))
        self.stored.emit()

    async def _go_on(self, message: Message) -> None:
        await self._instructions.store()
        chat_path = await self._database.run(messages.read_chat, message.chat)
        begun = message.id in self._replies.live
        if begun or chat_path is None or chat_path.path[-1].id != message.id:
            return
        live = LiveReply.begun(chat_path.path[-1])
        conversation = conversation_of(chat_path, self._blobs.path)
        self._replies.begin(live, conversation, chat_path.key, self._settings.settings)
        self._show_path(message.chat, chat_path)

    async def _edit(self, message: Message, text: str, shown: tuple[Picture, ...]) -> None:
        await self._replies.stop_chat(message.chat)
        turn = await self._database.run(turns.add_turn, message.chat, message.parent, text, shown)
        # Not before: until then nothing else holds the pictures that were added.
        self._edits.end(message.id)
        await self._begin(turn)
        self.stored.emit()

    async def _choose(self, chat: int, message: int) -> None:
        await self._database.run(messages.choose, message)
        await self.show_again(chat)

    async def _begin(self, turn: Turn) -> None:
        """Ask for the reply of a stored turn; it is at the end of the chosen path."""
        await self._instructions.store()
        chat_path = await self._database.run(messages.read_chat, turn.chat)
        if chat_path is None:
            return
        conversation = conversation_of(chat_path.before_last(), self._blobs.path)
        reply = chat_path.path[-1].reply
        live = LiveReply(turn.reply, turn.chat, format=reply.format if reply else None)
        self._replies.begin(live, conversation, chat_path.key, self._settings.settings)
        self._show_path(turn.chat, chat_path)

    def _put_draft(self, chat: int | None, draft: Draft) -> None:
        self._drafts.put(chat, draft)
        self.draft_changed.emit()
