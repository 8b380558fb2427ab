"""Deletes for good: rows, picture files, what the engine keeps; once there is no way back.

A deleted chat can be brought back while the message that says so is on screen. Then, or at the next
start, or when the window closes, nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.errors import WaymarkError
from core.client.blobs import BlobStore
from desktop.controllers.chat import ChatController
from desktop.controllers.chats import ChatsController
from desktop.controllers.forgets import Forgets
from desktop.controllers.pictures import PictureController
from desktop.controllers.replies import Replies
from desktop.controllers.tasks import Tasks
from desktop.store import chats, pictures
from desktop.store.database import Database
from desktop.store.folders import Folders

# Longer than the button to undo it is on screen.
UNDO_MS = 10_000
# A worker that does not listen must not keep the window open; the queue is sent at the next start.
CLOSING_PATIENCE_S = 3.0


class Deletion(QObject):
    """Follows the list of chats.

    Signals:
        everything_gone(): all data is deleted.
    """

    everything_gone = Signal()

    def __init__(
        self,
        chats: ChatsController,
        chat: ChatController,
        replies: Replies,
        pictures: PictureController,
        forgets: Forgets,
        database: Database,
        folders: Folders,
        tasks: Tasks,
    ) -> None:
        super().__init__()
        self._chats = chats
        self._chat = chat
        self._replies = replies
        self._pictures = pictures
        self._forgets = forgets
        self._database = database
        self._folders = folders
        self._tasks = tasks
        self._timers: dict[int, QTimer] = {}
        chats.deleted.connect(self._wait)
        chats.restored.connect(self._wait_no_longer)

    def delete_everything(self) -> None:
        """All chats, drafts, pictures, and what was read of them; settings stay."""
        self._tasks.spawn(self._delete_everything(), "Deleting all data")

    async def purge(self, chat: int | None = None) -> None:
        """Delete this deleted chat (or all of them) for good, and what only it used."""
        await self._delete_rows_and_files(chat)
        await self._database.leave_no_trace()
        self._forgets.send()

    async def close(self) -> None:
        """The same at the end, while the engine still runs; call when no task runs."""
        for timer in self._timers.values():
            timer.stop()
        # Closing the file empties its log.
        await self._delete_rows_and_files(None)
        with contextlib.suppress(WaymarkError, TimeoutError):
            await asyncio.wait_for(self._forgets.send_all(), CLOSING_PATIENCE_S)

    async def _delete_rows_and_files(self, chat: int | None) -> None:
        async with self._pictures.held():
            await self._database.run(chats.purge, chat)
            await self._remove_unused(self._chat.digests())

    async def _delete_everything(self) -> None:
        for chat in {live.chat for live in self._replies.live.values()}:
            await self._replies.stop_chat(chat)
        for waiting in list(self._timers):
            self._wait_no_longer(waiting)
        self._chat.forget_everything()
        async with self._pictures.held():
            await self._database.run(chats.delete_everything)
            await self._remove_unused(set())
        for copy in self._folders.data.glob("*.damaged-*"):
            await asyncio.get_running_loop().run_in_executor(None, copy.unlink, True)
        await self._database.leave_no_trace()
        self._forgets.send()
        await self._chats.refresh()
        self.everything_gone.emit()

    async def _remove_unused(self, held: set[str]) -> None:
        used = await self._database.run(pictures.collect_garbage)
        folder = self._folders.pictures
        await asyncio.get_running_loop().run_in_executor(None, remove_unused, folder, used | held)

    def _wait(self, chat: int) -> None:
        timer = self._timers[chat] = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(UNDO_MS)
        timer.timeout.connect(self._late(chat))
        timer.start()

    def _late(self, chat: int) -> Callable[[], None]:
        def purge() -> None:
            self._timers.pop(chat).deleteLater()
            self._tasks.spawn(self.purge(chat), "Deleting a chat for good")

        return purge

    def _wait_no_longer(self, chat: int) -> None:
        timer = self._timers.pop(chat, None)
        if timer is not None:
            timer.stop()
            timer.deleteLater()


def remove_unused(folder: Path, used: set[str]) -> None:
    """Delete the picture files that are not in use; what is no picture file stays."""
    blobs = BlobStore(folder)
    for path in folder.glob("??/*"):
        name = path.name
        if len(name) == 64 and name not in used:
            blobs.remove(name)
