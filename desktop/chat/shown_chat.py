"""The chat on screen: which one it is, its rows, its draft, and what its replies are doing.

Changes nothing in a chat; that is `chat`. What is drawn is the transcript's rows.
"""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QObject, Signal

from core.api.reply_format import ReplyFormat
from desktop.chat.drafts import Drafts
from desktop.chat.instructions import Instructions
from desktop.chat.messages import LiveReply, Row
from desktop.chat.replies import Replies
from desktop.chat.transcript import Transcript
from desktop.pictures.draft import Draft
from desktop.services import Services
from desktop.store.tables import chats as chat_table
from desktop.store.tables import messages
from desktop.store.tables.forks import Fork
from desktop.store.tables.records import ChatPath, Reply


class ShownChat(QObject):
    """Keeps the transcript true to the store and to the replies on their way.

    Signals:
        shown(int | None): another chat is on screen, or the empty page.
        draft_changed(): the composer's draft is another one, or was given back.
        draft_typed(): the user paused while typing into it.
        busy_changed(): the end of the shown path began or stopped to be on its way.
        instructed(): the instructions of the shown chat are others.
        format_changed(): the form that its next replies must have is another.
    """

    shown = Signal(object)
    draft_changed = Signal()
    draft_typed = Signal()
    busy_changed = Signal()
    instructed = Signal()
    format_changed = Signal()

    def __init__(
        self,
        services: Services,
        transcript: Transcript,
        replies: Replies,
        drafts: Drafts,
        instructions: Instructions,
    ) -> None:
        super().__init__()
        self.transcript = transcript
        self.shown_path = ChatPath()
        self._replies = replies
        self._drafts = drafts
        self._instructions = instructions
        self._database = services.database
        self._tasks = services.tasks
        # Which chat is wanted on screen; reading it may still be under way.
        self._wanted: int | None = None
        # By chat, the schema that was in force last.
        self._schemas: dict[int | None, str] = {}
        replies.streamed.connect(transcript.grow)
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)

    @property
    def draft(self) -> Draft:
        """What stands in the composer of the shown chat."""
        return self._drafts.of(self._wanted)

    @property
    def key(self) -> str:
        """What the engine's cache knows the shown chat by, or the one that would begin now."""
        return self.draft.key if self.transcript.chat is None else self.shown_path.key

    @property
    def running(self) -> LiveReply | None:
        """The reply at the end of the shown path, while it is on its way."""
        rows = self.transcript.rows
        return rows[-1].live if rows else None

    @property
    def instructions(self) -> str:
        """What stands in the prompt before everything else in the shown chat."""
        chat = self.transcript.chat
        if chat is None:
            return self._drafts.of(None).system
        typed = self._instructions.of(chat)
        return self.shown_path.system if typed is None else typed

    @property
    def format(self) -> ReplyFormat | None:
        """The form that the next replies of the shown chat must have; None where it is free."""
        chat = self.transcript.chat
        return self._drafts.of(None).format if chat is None else self.shown_path.format

    @property
    def last_schema(self) -> str:
        """The schema that was in force last in the shown chat, '' if none ever was."""
        replies = [message.reply.format for message in self.shown_path.path if message.reply]
        known = (*replies, self.format)
        schemas = [each.text for each in known if each and each.kind == "json_schema"]
        return self._schemas.get(self.transcript.chat) or (schemas[-1] if schemas else "")

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

    def keep_draft(self, draft: Draft) -> None:
        """What is typed stays, also if the power fails."""
        self._drafts.save(draft)

    def note_pause(self, draft: Draft) -> None:
        """The user has not typed for a moment: a good time to read what is there."""
        if draft is self.draft:
            self.draft_typed.emit()

    def instruct(self, system: str) -> None:
        """Tell the model this before everything else, from the next message on."""
        self._instructions.put(self.transcript.chat, system.strip())
        self.instructed.emit()

    def ask_for(self, reply_format: ReplyFormat | None) -> None:
        """Have replies be of this form, from the next one on; None leaves them free."""
        chat = self.transcript.chat
        for each in (self.format, reply_format):
            if each is not None and each.kind == "json_schema":
                self._schemas[chat] = each.text
        if chat is None:
            self._drafts.of(None).format = reply_format
            self._drafts.save(self._drafts.of(None))
            self.format_changed.emit()
        else:
            self._tasks.spawn(self._ask_for(chat, reply_format), "Keeping the form of replies")

    def forget(self, chats: Collection[int]) -> None:
        """These chats are gone for good, and so is what was typed in them."""
        for chat in chats:
            self._drafts.forget(chat)
            self._instructions.forget(chat)
            self._schemas.pop(chat, None)

    def forget_everything(self) -> None:
        """No chat is left: show the empty page, with nothing in the composer."""
        self._drafts.clear()
        self._schemas.clear()
        self.open(None)

    async def show_again(self, chat: int) -> None:
        """Show what the store holds of a chat, if it is the one wanted on screen."""
        chat_path = await self._database.run(messages.read_chat, chat)
        if chat_path is not None:
            self._show_path(chat, chat_path)
        elif chat == self._wanted:
            # It was deleted meanwhile; what is typed must not wait for it.
            self.open(None)

    async def _ask_for(self, chat: int, reply_format: ReplyFormat | None) -> None:
        await self._database.run(chat_table.ask_for, chat, reply_format)
        await self.show_again(chat)

    def _show_path(self, chat: int, chat_path: ChatPath) -> None:
        if chat != self._wanted:
            return
        self.shown_path = chat_path
        first, end = chat_path.first_in_prompt, len(chat_path.path) - 1
        rows = [
            Row(message, self._replies.live.get(message.id), 0 < first == place, place == end)
            for place, message in enumerate(chat_path.path)
        ]
        self.transcript.show(chat, rows)
        self._announce()

    def _announce(self) -> None:
        self.shown.emit(self._wanted)
        self.instructed.emit()
        self.format_changed.emit()
        self.draft_changed.emit()
        self.busy_changed.emit()

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
