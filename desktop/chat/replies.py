"""All replies on their way, whatever chat is shown.

The engine decides how often words come. They are shown as they come, and by a window that is behind
all in one step. One `Replies` serves all chats, so switching chats cancels nothing. It knows
neither transcript nor widgets; it says what happens through signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.chat import Conversation
from core.api.events import Generated
from desktop.chat.messages import LiveReply
from desktop.chat.reply_run import ReplyRun
from desktop.engine.tasks import attempted
from desktop.services import Services
from desktop.store.settings import AppSettings
from desktop.store.tables.records import Reply

STOP_PATIENCE_S = 5.0


class Replies(QObject):
    """Replies on their way by the id of their message.

    Signals:
        streamed(int): the live reply of this message has grown.
        progressed(LiveReply): its status or its numbers are new.
        ended(LiveReply, str, Reply): its last text and how it ended; both are stored.
    """

    streamed = Signal(int)
    progressed = Signal(object)
    ended = Signal(object, str, object)

    def __init__(self, services: Services) -> None:
        super().__init__()
        self.live: dict[int, LiveReply] = {}
        self._engine = services.engine
        self._database = services.database
        self._tasks = services.tasks
        self._runs: dict[int, ReplyRun] = {}
        self._unshown: set[int] = set()
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self._show)

    def begin(
        self, live: LiveReply, conversation: Conversation, key: str, settings: AppSettings
    ) -> None:
        """Answer a conversation into a stored reply, in the background; `key` is the chat's."""
        message = live.message
        run = ReplyRun(live, conversation, key, settings, self._engine, self._database, self)
        self.live[message], self._runs[message] = live, run
        run.task = self._tasks.spawn(run.run(), f"Reply {message}")

    def stop(self, message: int) -> None:
        """End a reply where it is; one that has ended is left alone."""
        run = self._runs.get(message)
        if run is not None:
            run.stop()

    async def stop_chat(self, chat: int) -> None:
        """End all replies of a chat, and wait until they are stored."""
        running = [message for message, live in self.live.items() if live.chat == chat]
        for message in running:
            self.stop(message)
        await self._until_ended(running)

    async def store_at_closing(self) -> None:
        """What has arrived of each reply stays as a stopped reply; call when no task runs."""
        for run in list(self._runs.values()):
            await attempted("storing a reply", run.store_at_closing)

    async def _until_ended(self, running: Iterable[int]) -> None:
        runs = [self._runs[message] for message in running if message in self._runs]
        tasks = [run.task for run in runs if run.task]
        # An engine that does not listen must not hold up what was asked; its reply ends later.
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_PATIENCE_S)

    # What a run tells.

    def progressed_with(self, live: LiveReply) -> None:
        self.progressed.emit(live)

    def received(self, live: LiveReply, event: Generated) -> None:
        live.take(event)
        self._unshown.add(live.message)
        if not self._timer.isActive():
            self._timer.start()

    def finished(self, live: LiveReply, text: str, reply: Reply) -> None:
        self._show()
        self.live.pop(live.message, None)
        self._runs.pop(live.message, None)
        self.ended.emit(live, text, reply)

    def _show(self) -> None:
        self._timer.stop()
        unshown, self._unshown = self._unshown, set()
        for message in unshown:
            self.streamed.emit(message)
