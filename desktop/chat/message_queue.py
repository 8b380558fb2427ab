"""Messages that wait for the reply before them: sent one by one as replies end, or given back.

A queued message is a draft that is done. It is stored with the draft it waits beside, so that
nothing is lost when the app ends; sending it is its owner's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from PySide6.QtCore import QObject, Signal

from core.api.events import CUT_SHORT
from desktop.chat.drafts import Drafts
from desktop.chat.messages import LiveReply
from desktop.chat.replies import Replies
from desktop.engine.tasks import Tasks
from desktop.pictures.draft import Draft
from desktop.pictures.pictures import PictureController
from desktop.store.tables.records import Reply, ReplyState

Send = Callable[[int, Draft], Awaitable[bool]]


class MessageQueue(QObject):
    """The queued messages of all chats.

    Signals:
        changed(): there are others.
        typed_wanted(): what stands in the composer must be in its draft now.
        given_back(Draft): this draft holds what was queued.
    """

    changed = Signal()
    typed_wanted = Signal()
    given_back = Signal(object)

    def __init__(
        self,
        drafts: Drafts,
        pictures: PictureController,
        replies: Replies,
        tasks: Tasks,
        send: Send,
    ) -> None:
        super().__init__()
        self._drafts = drafts
        self._pictures = pictures
        self._tasks = tasks
        self._send = send
        replies.ended.connect(self._on_end)

    def add(self, chat: int | None) -> None:
        """What stands in the composer of a chat waits from now on."""
        draft = self._drafts.of(chat)
        fresh = Draft(queued=[*draft.queued, draft])
        draft.queued = []
        self._drafts.put(chat, fresh)
        self._drafts.save(fresh)
        self.changed.emit()

    def take_back(self, chat: int | None, message: Draft) -> None:
        """Put a queued message back into the composer, before what stands there."""
        self._tasks.spawn(self._take_back(chat, message), "Taking back a queued message")

    def take_all_back(self, chat: int | None) -> None:
        """The same with all of a chat: the reply they waited for did not come."""
        for message in reversed(self._drafts.of(chat).queued):
            self.take_back(chat, message)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if not self._drafts.of(live.chat).queued:
            return
        if reply.state is ReplyState.COMPLETE and reply.finish_reason in {"stop", *CUT_SHORT}:
            self._tasks.spawn(self._send_next(live.chat), "Sending a queued message")
        else:
            self.take_all_back(live.chat)

    async def _send_next(self, chat: int) -> None:
        queued = self._drafts.of(chat).queued
        if not queued:
            return
        message = queued.pop(0)
        self.changed.emit()
        if await self._send(chat, message):
            # The store has what was left of the draft then; there may be more by now.
            self._drafts.save(self._drafts.of(chat))
        else:
            self._drafts.of(chat).queued.insert(0, message)
            self.take_all_back(chat)

    async def _take_back(self, chat: int | None, message: Draft) -> None:
        # A picture that is being looked at belongs to the draft it was dropped into.
        await self._pictures.settled(message)
        draft = self._drafts.of(chat)
        if message not in draft.queued:
            return
        self.typed_wanted.emit()
        draft.queued.remove(message)
        draft.text = "\n\n".join(text for text in (message.text, draft.text) if text.strip())
        draft.pictures[:0] = message.pictures
        if chat is None:
            # Those of the chat that would have begun with it.
            draft.key, draft.system, draft.format = message.key, message.system, message.format
        self._drafts.save(draft)
        self.given_back.emit(draft)
        self.changed.emit()
