"""The shown chat: send, stop, regenerate, edit and resend, choose an alternative.

A message is in the store before the engine hears of it. Knows the order of things; how a reply
comes about is `replies`, what is drawn is the transcript's rows.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.errors import NoVisionError, WaymarkError
from core.client.blobs import BlobStore
from desktop.controllers.chats import ChatsController
from desktop.controllers.conversation import conversation_of
from desktop.controllers.drafts import Drafts
from desktop.controllers.pictures import PictureController
from desktop.controllers.replies import Replies
from desktop.controllers.settings import SettingsController
from desktop.controllers.tasks import Tasks
from desktop.item_models.draft import Draft
from desktop.item_models.messages import LiveReply, Row
from desktop.item_models.transcript import Transcript
from desktop.store import chats, messages, turns
from desktop.store.database import Database
from desktop.store.forks import Fork
from desktop.store.records import ChatPath, Message, Picture, Reply
from desktop.store.turns import Turn


class ChatController(QObject):
    """Acts on the chat in the transcript.

    Signals:
        draft_changed(): the composer's draft is another one, or was given back.
        draft_typed(): the user paused while typing into it.
        refused(str): why nothing was sent.
        busy_changed(): the end of the shown path began or stopped to be on its way.
        instructed(): the instructions of the shown chat are others.
    """

    draft_changed = Signal()
    draft_typed = Signal()
    refused = Signal(str)
    busy_changed = Signal()
    instructed = Signal()

    def __init__(
        self,
        transcript: Transcript,
        chats: ChatsController,
        replies: Replies,
        pictures: PictureController,
        drafts: Drafts,
        settings: SettingsController,
        database: Database,
        blobs: BlobStore,
        tasks: Tasks,
    ) -> None:
        super().__init__()
        self.transcript = transcript
        self._chats = chats
        self._replies = replies
        self._pictures = pictures
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._tasks = tasks
        # Which chat is wanted on screen; reading it may still be under way.
        self._wanted: int | None = None
        self.shown_path = ChatPath()
        self._drafts = drafts
        # The draft on its way into the store; Enter can be pressed twice before it is there.
        self._sending: Draft | None = None
        chats.forked.connect(self.open_made)
        replies.streamed.connect(transcript.grow)
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)

    # What the user may ask.

    @property
    def draft(self) -> Draft:
        """What stands in the composer of the shown chat."""
        return self._drafts.of(self._wanted)

    @property
    def key(self) -> str:
        """What the engine's cache knows the shown chat by, or the one that would begin now."""
        return self.draft.key if self.transcript.chat is None else self.shown_path.key

    def digests(self) -> set[str]:
        """The pictures of messages not sent yet."""
        sending = self._sending.ready_pictures() if self._sending else ()
        return self._drafts.digests() | {each.digest for each in sending}

    @property
    def running(self) -> LiveReply | None:
        """The reply at the end of the shown path, while it is on its way."""
        rows = self.transcript.rows
        return rows[-1].live if rows else None

    def open(self, chat: int | None) -> None:
        """Show a chat, or with None the empty page on which a new one begins."""
        self._wanted = chat
        if chat is None:
            self.shown_path = ChatPath()
            self.transcript.show(None, [])
            self._announce()
        else:
            self._tasks.spawn(self.show_again(chat), "Opening a chat")

    def open_made(self, made: Fork) -> None:
        """Show a chat that was made from another one, with what stands in its composer."""
        if made.text or made.pictures:
            self._drafts.begin(made.chat, made.text, made.pictures)
        self.open(made.chat)

    def send(self) -> None:
        """Send the draft of the shown chat."""
        if self.draft.empty or self._sending is not None:
            return
        if self.running is not None:
            self.refused.emit("A reply is on its way. Stop it first, or wait for its end.")
            return
        self._sending = self.draft
        self._tasks.spawn(self._send(self._wanted, self.draft), "Sending")

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

    @property
    def instructions(self) -> str:
        """What the model is told before everything else in the shown chat."""
        return self.draft.system if self.transcript.chat is None else self.shown_path.system

    def instruct(self, system: str) -> None:
        """Tell the model this before everything else, from the next message on."""
        chat = self.transcript.chat
        if chat is None:
            self.draft.system = system.strip()
            self.keep_draft(self.draft)
            self.instructed.emit()
        else:
            self._tasks.spawn(self._instruct(chat, system.strip()), "Changing the instructions")

    def edit(self, message: int, text: str) -> None:
        """The same message in other words, beside the old one, with a reply of its own."""
        row = self.transcript.row_of(message)
        if row is not None and (text.strip() or row.message.pictures):
            self._tasks.spawn(self._edit(row.message, text.strip()), "Sending again")

    def choose(self, message: int) -> None:
        """Show this alternative, and what follows it."""
        chat = self.transcript.chat
        if chat is not None:
            self._tasks.spawn(self._choose(chat, message), "Turning to another version")

    def keep_draft(self, draft: Draft) -> None:
        """What is typed stays, also if the power fails."""
        self._drafts.save(draft)
        if draft is self.draft:
            self.draft_typed.emit()

    def forget_everything(self) -> None:
        """No chat is left: show the empty page, with nothing in the composer."""
        self._drafts.clear()
        self.open(None)

    def picture_path(self, digest: str) -> Path:
        return self._blobs.path(digest)

    # How it is done.

    async def _send(self, chat: int | None, draft: Draft) -> None:
        try:
            if not draft.complete:
                self.refused.emit("It is sent as soon as the picture has been looked at.")
            # What was refused stands beside the composer; the user decides again.
            if await self._pictures.settled(draft) and self._sendable(draft):
                await self._store_and_begin(chat, draft)
        finally:
            self._sending = None

    async def _store_and_begin(self, chat: int | None, draft: Draft) -> None:
        text, shown = draft.text.strip(), draft.ready_pictures()
        self._put_draft(chat, Draft())
        try:
            turn = await self._database.run(
                turns.append_turn, chat, text, shown, draft.key, draft.system
            )
        except WaymarkError as error:
            self._put_draft(chat, draft)
            self.refused.emit(f"{error.title}: {error.message} The message was not sent.")
            return
        if chat is None and self._wanted is None:
            self._wanted = turn.chat
            # What was typed meanwhile goes along.
            self._drafts.put(turn.chat, self._drafts.of(None))
            self._drafts.put(None, Draft())
        await self._begin(turn)
        self._sending = None
        await self._chats.refresh()

    def _sendable(self, draft: Draft) -> bool:
        model = self._settings.engine.model
        rows = self.transcript.rows
        pictures = draft.pictures or any(row.message.pictures for row in rows)
        if model is None or model.vision or not pictures:
            return True
        title = NoVisionError.title
        where = "Remove the picture" if draft.pictures else "Start a new chat"
        self.refused.emit(f"{title}: {model.name}. {where}, or load a model that can.")
        return False

    async def _regenerate(self, chat: int, parent: int) -> None:
        await self._replies.stop_chat(chat)
        await self._begin(await self._database.run(turns.add_alternative, chat, parent))
        await self._chats.refresh()

    async def _go_on(self, message: Message) -> None:
        chat_path = await self._database.run(messages.read_chat, message.chat)
        begun = message.id in self._replies.live
        if begun or chat_path is None or chat_path.path[-1].id != message.id:
            return
        live = LiveReply.begun(chat_path.path[-1])
        conversation = conversation_of(chat_path, self._blobs.path)
        self._replies.begin(live, conversation, chat_path.key, self._settings.settings)
        self._show_path(message.chat, chat_path)

    async def _instruct(self, chat: int, system: str) -> None:
        await self._database.run(chats.instruct, chat, messages.storable(system))
        await self.show_again(chat)

    async def _edit(self, message: Message, text: str) -> None:
        await self._replies.stop_chat(message.chat)
        shown: tuple[Picture, ...] = message.pictures
        turn = await self._database.run(turns.add_turn, message.chat, message.parent, text, shown)
        await self._begin(turn)
        await self._chats.refresh()

    async def _choose(self, chat: int, message: int) -> None:
        await self._database.run(messages.choose, message)
        await self.show_again(chat)

    async def _begin(self, turn: Turn) -> None:
        """Ask for the reply of a stored turn; it is at the end of the chosen path."""
        chat_path = await self._database.run(messages.read_chat, turn.chat)
        if chat_path is None:
            return
        conversation = conversation_of(chat_path.before_last(), self._blobs.path)
        live = LiveReply(turn.reply, turn.chat)
        self._replies.begin(live, conversation, chat_path.key, self._settings.settings)
        self._show_path(turn.chat, chat_path)

    async def show_again(self, chat: int) -> None:
        """Show what the store holds of a chat, if it is the one wanted on screen."""
        chat_path = await self._database.run(messages.read_chat, chat)
        if chat_path is not None:
            self._show_path(chat, chat_path)
        elif chat == self._wanted:
            # It was deleted meanwhile; what is typed must not wait for it.
            self.open(None)

    def _show_path(self, chat: int, chat_path: ChatPath) -> None:
        if chat != self._wanted:
            return
        self.shown_path = chat_path
        first, end = chat_path.first_told, len(chat_path.path) - 1
        rows = [
            Row(message, self._replies.live.get(message.id), 0 < first == place, place == end)
            for place, message in enumerate(chat_path.path)
        ]
        self.transcript.show(chat, rows)
        self._announce()

    def _put_draft(self, chat: int | None, draft: Draft) -> None:
        self._drafts.put(chat, draft)
        self.draft_changed.emit()

    def _announce(self) -> None:
        self._chats.set_shown(self._wanted)
        self.instructed.emit()
        self.draft_changed.emit()
        self.busy_changed.emit()

    # What becomes of it.

    def _on_progress(self, live: LiveReply) -> None:
        row = self.transcript.row_of(live.message)
        if row is not None:
            self.transcript.update(row)

    def _on_end(self, live: LiveReply, text: str, reply: Reply) -> None:
        row = self.transcript.row_of(live.message)
        if row is not None:
            ended = row.with_end(text, reply)
            self.transcript.update(ended)
            self.shown_path = self.shown_path.with_end(ended.message)
            self.busy_changed.emit()
