"""The chat on screen: rows, draft, options, the reply in progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import Signal

from core.api.reply_format import ReplyFormat
from core.remote.messages import Place
from desktop.chat.data.formats import Kind, text_of
from desktop.chat.drafts import Drafts
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply, Row, Transcript
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.services import Controller, Services
from desktop.store.settings import AppSettings, with_own
from desktop.store.tables import chats as chat_table
from desktop.store.tables import messages
from desktop.store.tables.forks import Fork
from desktop.store.tables.records import Begin, ChatPath, Folder, Reply


class ShownChat(Controller):
    """Keeps the transcript in step with the store and the replies.

    `shown(chat)`: another chat, or None. `draft_typed()`, `reply_typed(message, text)`: the user
    paused typing. `busy_changed()`: the last reply began or ended. `placed()`: the next reply's
    place may have changed.
    """

    shown = Signal(object)
    draft_changed = Signal()
    draft_typed = Signal()
    reply_typed = Signal(int, str)
    busy_changed = Signal()
    instructed = Signal()
    format_changed = Signal()
    own_changed = Signal()
    placed = Signal()

    def __init__(self, services: Services, replies: Replies, drafts: Drafts) -> None:
        super().__init__(services)
        self.transcript = Transcript()
        self.shown_path = ChatPath()
        self.replies = replies
        self.drafts = drafts
        # The chat to show; it may still be on its way from the store.
        self._wanted: int | None = None
        # The text of each kind of format that was last in force, by chat.
        self._written: dict[int | None, dict[str, str]] = {}
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)

    @property
    def draft(self) -> Draft:
        return self.drafts.of(self._wanted)

    @property
    def key(self) -> str:
        """The chat's name in the engine's cache; a new chat has one, too."""
        return self.draft.key if self.transcript.chat is None else self.shown_path.key

    @property
    def running(self) -> LiveReply | None:
        rows = self.transcript.rows
        return rows[-1].live if rows else None

    @property
    def instructions(self) -> str:
        chat = self.transcript.chat
        if chat is None:
            return self.drafts.of(None).system
        typed = self.drafts.instructions(chat)
        return self.shown_path.system if typed is None else typed

    @property
    def _options(self) -> Draft | ChatPath:
        return self.drafts.of(None) if self.transcript.chat is None else self.shown_path

    @property
    def format(self) -> ReplyFormat | None:
        """None for free text."""
        return self._options.format

    @property
    def own(self) -> Mapping[str, Any]:
        """The chat's own settings by their keys."""
        return self._options.settings

    @property
    def folder(self) -> Folder | None:
        return self._options.folder

    @property
    def new_folder(self) -> Folder | None:
        return self.drafts.of(None).folder

    def begin_new_chats(self, folder: Folder | None, before: Begin, begin: Begin) -> None:
        """Unless the user changed the present ones from `before`, new chats get the settings
        `begin`."""
        draft = self.drafts.of(None)
        draft.folder = folder
        if draft.begin == before:
            draft.begin_with(begin)
        self.drafts.save(draft)
        if self.transcript.chat is None:
            self._announce()

    @property
    def settings(self) -> AppSettings:
        return with_own(self._settings.settings, self.own)

    def set_own(self, own: Mapping[str, Any]) -> None:
        chat = self.transcript.chat
        if chat is None:
            draft = self.drafts.of(None)
            draft.settings = dict(own)
            self.drafts.save(draft)
        else:
            # Shown at once: two switches may be turned before the first one is stored.
            self.shown_path = replace(self.shown_path, settings=dict(own))
            work = self._database.run(chat_table.set_own, chat, dict(own))
            self._tasks.spawn(work, tr("Storing the settings of a chat"))
        self.own_changed.emit()

    @property
    def place(self) -> Place | None:
        """The server and model of the next reply; None is this computer."""
        return self._remote.new_chats if self.transcript.chat is None else self.shown_path.place

    def may_run_at(self, place: Place | None) -> bool:
        """False if the user has to agree first that the chat is sent there."""
        begun = self.transcript.chat is not None
        return place is None or not begun or place.address in self.shown_path.agreed

    def run_at(self, place: Place | None) -> None:
        """Call once the user agreed."""
        chat = self.transcript.chat
        if chat is None:
            self._remote.place_new_chats(place)
            self.placed.emit()
            self.draft_changed.emit()
        else:
            work = self._change(chat, chat_table.run_at, chat, place)
            self._tasks.spawn(work, tr("Choosing where replies are written"))

    async def _change(self, chat: int, work: Callable[..., object], *args: object) -> None:
        await self._database.run(work, *args)
        await self.show_again(chat)

    def last_written(self, kind: Kind) -> str:
        """The text of the last format of this kind, or ''."""
        replies = [message.reply.format for message in self.shown_path.path if message.reply]
        known = [text_of(each) for each in (*replies, self.format) if each and each.kind == kind]
        written = self._written.get(self.transcript.chat, {})
        return written.get(kind) or (known[-1] if known else "")

    def open(self, chat: int | None) -> None:
        self._wanted = chat
        if chat is None:
            self.shown_path = ChatPath()
            self.transcript.show(None, [])
            self._announce()
        else:
            self._tasks.spawn(self.show_again(chat), tr("Opening a chat"))

    async def open_at(self, chat: int, message: int) -> None:
        """Show the path to this message."""
        self._wanted = chat
        await self._change(chat, messages.choose_path, message)

    def open_made(self, made: Fork) -> None:
        if made.text or made.shown:
            self.drafts.begin(made.chat, made.text, made.shown)
        self.open(made.chat)

    def keep_draft(self, draft: Draft) -> None:
        self.drafts.save_soon(draft)

    def note_pause(self, draft: Draft) -> None:
        if draft is self.draft:
            self.draft_typed.emit()

    def instruct(self, system: str) -> None:
        self.drafts.instruct(self.transcript.chat, system.strip())
        self.instructed.emit()

    def ask_for(self, reply_format: ReplyFormat | None) -> None:
        """From the next reply on; None for free text."""
        chat = self.transcript.chat
        for each in (self.format, reply_format):
            if each is not None:
                self._written.setdefault(chat, {})[each.kind] = text_of(each)
        if chat is None:
            self.drafts.of(None).format = reply_format
            self.drafts.save(self.drafts.of(None))
            self.format_changed.emit()
        else:
            work = self._change(chat, chat_table.ask_for, chat, reply_format)
            self._tasks.spawn(work, tr("Storing the format of replies"))

    def forget(self, chats: Collection[int]) -> None:
        self.drafts.forget(chats)
        for chat in chats:
            self._written.pop(chat, None)

    def forget_everything(self) -> None:
        self.drafts.clear()
        self._written.clear()
        self.open(None)

    def look_again(self, chat: int) -> None:
        """Read the chat again if it is shown: it changed elsewhere."""
        if chat == self._wanted:
            self._tasks.spawn(self.show_again(chat), tr("Opening a chat"))

    async def show_again(self, chat: int) -> None:
        chat_path = await self._database.run(messages.read_chat, chat)
        if chat_path is not None:
            self._show_path(chat, chat_path)
        elif chat == self._wanted:
            # Deleted meanwhile; the composer must not wait for it.
            self.open(None)

    def _show_path(self, chat: int, chat_path: ChatPath) -> None:
        if chat != self._wanted:
            return
        self.shown_path = chat_path
        first, end = chat_path.first_in_prompt, len(chat_path.path) - 1
        # A server can't continue a reply.
        full = chat_path.place is not None
        rows = [
            Row(message, self.replies.live.get(message.id), 0 < first == place, place == end, full)
            for place, message in enumerate(chat_path.path)
        ]
        self.transcript.show(chat, rows)
        self._announce()

    def _announce(self) -> None:
        self.own_changed.emit()
        self.shown.emit(self._wanted)
        self.instructed.emit()
        self.format_changed.emit()
        self.placed.emit()
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
