"""Messages that wait for a reply to end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.api.events import CUT_SHORT
from desktop.chat.drafts import Drafts
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.pictures.draft import Draft
from desktop.store.tables.records import Reply, ReplyState
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import ElidedLabel, named

LONGEST_SHOWN = 200
Send = Callable[[int, Draft], Awaitable[None]]


class MessageQueue(QObject):
    """Sends queued messages as replies end, or gives them back to the draft.

    `typed_wanted()`: the composer must copy its text into its draft now.
    """

    changed = Signal()
    typed_wanted = Signal()
    given_back = Signal(object)

    def __init__(self, drafts: Drafts, replies: Replies, tasks: Tasks, send: Send) -> None:
        super().__init__()
        self._drafts = drafts
        self._tasks = tasks
        self._send = send
        replies.ended.connect(self._on_end)

    def add(self, chat: int | None) -> None:
        draft = self._drafts.of(chat)
        fresh = Draft(queued=[*draft.queued, draft])
        draft.queued = []
        self._drafts.put(chat, fresh)
        self._drafts.save(fresh)
        self.changed.emit()

    def take_back(self, chat: int | None, message: Draft) -> None:
        self._tasks.spawn(self._take_back(chat, message), tr("Taking back a queued message"))

    def take_all_back(self, chat: int | None) -> None:
        for message in reversed(self._drafts.of(chat).queued):
            self.take_back(chat, message)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if not self._drafts.of(live.chat).queued:
            return
        if reply.state is ReplyState.COMPLETE and reply.finish_reason in {"stop", *CUT_SHORT}:
            self._tasks.spawn(self._send_next(live.chat), tr("Sending a queued message"))
        else:
            self.take_all_back(live.chat)

    async def _send_next(self, chat: int) -> None:
        queued = self._drafts.of(chat).queued
        if not queued:
            return
        message = queued.pop(0)
        self.changed.emit()
        await self._send(chat, message)
        # Sending stored what was left of the draft; there may be more by now.
        self._drafts.save(self._drafts.of(chat))

    async def _take_back(self, chat: int | None, message: Draft) -> None:
        # Until it is read, a file belongs to the draft it was dropped into.
        await self._drafts.documents.settled(message)
        draft = self._drafts.of(chat)
        if message not in draft.queued:
            return
        self.typed_wanted.emit()
        draft.queued.remove(message)
        draft.text = "\n\n".join(text for text in (message.text, draft.text) if text.strip())
        draft.pictures[:0] = message.pictures
        draft.documents[:0] = message.documents
        if chat is None:
            # Messages of the chat that would have begun with it.
            draft.key, draft.system = message.key, message.system
            draft.format, draft.settings = message.format, message.settings
        self._drafts.save(draft)
        self.given_back.emit(draft)
        self.changed.emit()


class QueuedMessages(QWidget):
    take_back_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        named(self, "queuedMessages", tr("Queued messages"))
        self._layout = column(of=self, margins=(6, 0, 0, 0), spacing=0)
        self._lines: list[QWidget] = []
        self._shown: list[Draft] = []
        self.hide()

    def show_messages(self, messages: Sequence[Draft]) -> None:
        if self._shown == list(messages):
            return
        for line in self._lines:
            self._layout.removeWidget(line)
            line.hide()
            line.deleteLater()
        self._shown = list(messages)
        self._lines = [self._line(message) for message in messages]
        for line in self._lines:
            self._layout.addWidget(line)
        self.setVisible(bool(messages))

    def _line(self, message: Draft) -> QWidget:
        line = QWidget()
        words = ElidedLabel(name="queuedWords", style="muted small")
        words.set_words(queued_text(message))
        back = IconButton("close", tr("Move it back into the message field"), name="queuedTakeBack")
        back.clicked.connect(lambda: self.take_back_asked.emit(message))
        row(words, back, of=line).setStretchFactor(words, 1)
        return line


def queued_text(message: Draft) -> str:
    names = ", ".join(each.name for each in message.documents)
    text = " ".join((message.text[:LONGEST_SHOWN] or names).split())
    count = len(message.pictures)
    if not count:
        said = tr("Queued: {text}")
    elif text:
        said = tr("Queued: {text}, 1 image") if count == 1 else tr("Queued: {text}, {count} images")
    else:
        said = tr("Queued: 1 image") if count == 1 else tr("Queued: {count} images")
    return said.format(text=text, count=format_count(count))
