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
from desktop.controllers.pictures import PictureController
from desktop.controllers.replies import Replies
from desktop.controllers.settings import SettingsController
from desktop.controllers.tasks import Tasks
from desktop.item_models.draft import Draft
from desktop.item_models.messages import LiveReply, Row
from desktop.item_models.transcript import Transcript
from desktop.store import messages, turns
from desktop.store.database import Database
from desktop.store.records import Message, Picture, Reply
from desktop.store.turns import Turn


class ChatController(QObject):
    """Acts on the chat in the transcript.

    Signals:
        draft_changed(): the composer's draft is another one, or was given back.
        refused(str): why nothing was sent.
        busy_changed(): the end of the shown path began or stopped to be on its way.
    """

    draft_changed = Signal()
    refused = Signal(str)
    busy_changed = Signal()

    def __init__(
        self,
        transcript: Transcript,
        chats: ChatsController,
        replies: Replies,
        pictures: PictureController,
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
        self._drafts: dict[int | None, Draft] = {}
        self._sending = False
        replies.streamed.connect(transcript.grow)
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)

    # What the user may ask.

    @property
    def draft(self) -> Draft:
        """What stands in the composer of the shown chat."""
        return self._drafts.setdefault(self._wanted, Draft())

    @property
    def running(self) -> LiveReply | None:
        """The reply at the end of the shown path, while it is on its way."""
        rows = self.transcript.rows
        return rows[-1].live if rows else None

    def open(self, chat: int | None) -> None:
        """Show a chat, or with None the empty page on which a new one begins."""
        self._wanted = chat
        if chat is None:
            self.transcript.show(None, [])
            self._announce()
        else:
            self._tasks.spawn(self._show(chat), "Opening a chat")

    def send(self) -> None:
        """Send the draft of the shown chat."""
        if self.draft.empty or self._sending:
            return
        if self.running is not None:
            self.refused.emit("A reply is on its way. Stop it first, or wait for its end.")
            return
        # At once, for Enter can be pressed twice before the task has its first turn.
        self._sending = True
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
            self._sending = False

    async def _store_and_begin(self, chat: int | None, draft: Draft) -> None:
        text, shown = draft.text.strip(), draft.ready_pictures()
        self._put_draft(chat, Draft())
        try:
            turn = await self._database.run(turns.append_turn, chat, text, shown)
        except WaymarkError as error:
            self._put_draft(chat, draft)
            self.refused.emit(f"{error.title}: {error.message} The message was not sent.")
            return
        if chat is None and self._wanted is None:
            self._wanted = turn.chat
            self._drafts[turn.chat] = self._drafts.pop(None, Draft())
        await self._begin(turn)
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

    async def _edit(self, message: Message, text: str) -> None:
        await self._replies.stop_chat(message.chat)
        shown: tuple[Picture, ...] = message.pictures
        turn = await self._database.run(turns.add_turn, message.chat, message.parent, text, shown)
        await self._begin(turn)
        await self._chats.refresh()

    async def _choose(self, chat: int, message: int) -> None:
        await self._database.run(messages.choose, message)
        await self._show(chat)

    async def _begin(self, turn: Turn) -> None:
        """Ask for the reply of a stored turn; it is at the end of the chosen path."""
        path = await self._database.run(messages.read_path, turn.chat)
        created = await self._database.run(messages.created, turn.chat)
        conversation = conversation_of(path[:-1], created, self._blobs.path)
        self._replies.begin(turn.chat, turn.reply, conversation, self._settings.settings)
        self._show_path(turn.chat, path)

    async def _show(self, chat: int) -> None:
        self._show_path(chat, await self._database.run(messages.read_path, chat))

    def _show_path(self, chat: int, path: list[Message]) -> None:
        if chat != self._wanted:
            return
        rows = [Row(message, self._replies.live.get(message.id)) for message in path]
        self.transcript.show(chat, rows)
        self._announce()

    def _put_draft(self, chat: int | None, draft: Draft) -> None:
        self._drafts[chat] = draft
        self.draft_changed.emit()

    def _announce(self) -> None:
        self._chats.set_shown(self._wanted)
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
            self.transcript.update(row.with_end(text, reply))
            self.busy_changed.emit()
