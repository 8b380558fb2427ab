"""Changes and lists chats, and has the model write titles."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta

from PySide6.QtCore import QTimer, Signal

from core.api.chat import TextPart, UserMessage
from core.api.commands import Generate
from core.api.errors import WaymarkError
from core.api.params import SamplingParams
from desktop.chat.conversation import conversation_of
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chat_list import ChatList
from desktop.chats.trash import TrashList
from desktop.i18n import tr
from desktop.services import Controller, Services
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables import chats, folders, forks, message_tree, messages
from desktop.store.tables.records import (
    Chat,
    ChatPath,
    DeletedMessages,
    Folder,
    Reply,
    ReplyState,
    Trashed,
)

LONGEST_PAUSE_S = 3600.0


class ChatsController(Controller):
    # Another chat is on screen, or the list has another order.
    shown_changed = Signal()
    deleted = Signal(int, str)
    restored = Signal(int)
    # Messages of a chat are back.
    messages_restored = Signal(int)
    # Fork: there is a new chat with the messages of another one.
    forked = Signal(object)
    # An hour is over, or a day.
    time_passed = Signal()

    def __init__(self, services: Services, chat_list: ChatList, replies: Replies) -> None:
        super().__init__(services)
        self.chat_list = chat_list
        self.trash = TrashList()
        self.shown: int | None = None
        self._replies = replies
        # Delete can be pressed again while a reply is still being stopped.
        self._deleting: set[int] = set()
        chat_list.rename_asked.connect(self.rename)
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._on_time)
        self._clock.start(_pause_ms())

    async def refresh(self) -> None:
        listed, made, trashed = await self._database.run(_all)
        self.chat_list.show(listed, made)
        self.trash.show(trashed)
        self.shown_changed.emit()

    def read_again(self) -> None:
        self._tasks.spawn(self.refresh(), tr("Reading the chats"))

    def set_shown(self, chat: int | None) -> None:
        self.shown = chat
        self.shown_changed.emit()

    def rename(self, chat: int, title: str) -> None:
        self._tasks.spawn(self._change(chats.rename, chat, title), tr("Renaming a chat"))

    def pin(self, chat: int, pinned: bool) -> None:
        self._tasks.spawn(self._change(chats.pin, chat, pinned), tr("Pinning a chat"))

    def delete(self, chat: int) -> None:
        if chat not in self._deleting:
            self._deleting.add(chat)
            self._tasks.spawn(self._delete(chat), tr("Deleting a chat"))

    def restore(self, chat: int, opened: bool = True) -> None:
        self._tasks.spawn(self._restore(chat, opened), tr("Restoring a chat"))

    def bring_back(self, item: Trashed) -> None:
        """Restore it without opening its chat."""
        if isinstance(item, DeletedMessages):
            self.restore_messages(item)
        else:
            self.restore(item.id, opened=False)

    def restore_messages(self, gone: DeletedMessages) -> None:
        self._tasks.spawn(self._restore_messages(gone), tr("Restoring messages"))

    def fork(self, chat: int, message: int) -> None:
        self._tasks.spawn(self._fork(chat, message), tr("Forking a chat"))

    async def stop_replies(self) -> None:
        for chat in {live.chat for live in self._replies.live.values()}:
            await self._replies.stop_chat(chat)

    async def _fork(self, chat: int, message: int) -> None:
        made = await self._database.run(forks.fork, chat, message)
        if made is not None:
            await self.refresh()
            self.forked.emit(made)

    async def _change(self, work: Callable[..., None], *args: object) -> None:
        await self._database.run(work, *args)
        await self.refresh()

    async def _delete(self, chat: int) -> None:
        listed = self.chat_list.chat_of(chat)
        try:
            await self._replies.stop_chat(chat)
            await self._database.run(chats.delete, chat)
            await self.refresh()
        finally:
            self._deleting.discard(chat)
        self.deleted.emit(chat, listed.title if listed else "")

    async def _restore(self, chat: int, opened: bool) -> None:
        await self._change(chats.restore, chat)
        if opened:
            self.restored.emit(chat)

    async def _restore_messages(self, gone: DeletedMessages) -> None:
        await self._change(message_tree.restore, gone)
        self.messages_restored.emit(gone.chat)

    def _on_time(self) -> None:
        self._clock.start(_pause_ms())
        self.read_again()
        self.time_passed.emit()

    def _on_progress(self, live: LiveReply) -> None:
        self.chat_list.set_busy(live.chat, live.status.partition(":")[0] or tr("Replying"))

    def _on_end(self, live: LiveReply) -> None:
        others = [each for each in self._replies.live.values() if each.chat == live.chat]
        self.chat_list.set_busy(live.chat, others[0].status or tr("Replying") if others else "")


def _all(connection: sqlite3.Connection) -> tuple[list[Chat], list[Folder], list[Trashed]]:
    trashed: list[Trashed] = [*chats.trashed(connection), *message_tree.deleted(connection)]
    trashed.sort(key=lambda each: -each.deleted)
    return chats.listed(connection), folders.listed(connection), trashed


def _pause_ms() -> int:
    """An hour, or until midnight, when sections change."""
    now = datetime.now()
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time())
    return int(1000 * min(LONGEST_PAUSE_S, max(1.0, (tomorrow - now).total_seconds() + 1)))


TITLE_TOKENS = 32
ASK = UserMessage(
    content=(
        TextPart(
            text="Write a title for our conversation: at most six words, in its language, without "
            "quotation marks. Write only the title."
        ),
    )
)


class Titles(Controller):
    """Titles that the model writes while the engine is idle.

    A chat begins with its first words as title. After its first reply, a side request asks for one:
    it evicts nothing and gives way to other requests. Chats on servers keep their first words:
    nothing is sent there unasked.
    """

    def __init__(self, services: Services, chats: ChatsController, replies: Replies) -> None:
        super().__init__(services)
        self._chats = chats
        replies.ended.connect(self._on_end)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        wanted = self._settings.settings.background.titles
        if wanted and reply.state is ReplyState.COMPLETE:
            self._tasks.spawn(self._entitle(live.chat), tr("Writing a title"))

    async def _entitle(self, chat: int) -> None:
        chat_path = await self._database.run(_untitled, chat)
        if chat_path is None or chat_path.place is not None:
            return
        try:
            reply = await self._ask(chat_path)
        except WaymarkError:
            # The next reply gives another chance.
            return
        if reply is not None:
            await self._database.run(chats.entitle, chat, chats.title_of(reply))
            await self._chats.refresh()

    async def _ask(self, chat_path: ChatPath) -> str | None:
        """'' if it is no title, None if none was asked for or the request was stopped. Raises
        WaymarkError."""
        model, settings = self._engine.model, self._settings.settings
        # The demo model only talks about its pictures.
        if model is None or model.path == str(DEMO_MODEL):
            return None
        command = Generate(
            conversation=conversation_of(chat_path, self._blobs.path, ASK),
            chat=chat_path.key,
            side=True,
            idle=True,
            sampling=SamplingParams(temperature=0, max_tokens=TITLE_TOKENS),
            thinking=False if model.thinking_switch else None,
            cache=settings.cache,
        )
        finished = await self._engine.client.ask(command).last()
        if finished.reason == "cancelled":
            return None
        # A model that goes on and on has not written a title.
        return finished.reply.text if finished.reason == "stop" else ""


def _untitled(connection: sqlite3.Connection, chat: int) -> ChatPath | None:
    return messages.read_chat(connection, chat) if chats.awaits_title(connection, chat) else None
