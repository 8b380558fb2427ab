"""Deletes for good: rows, picture files, what the engine keeps; once it can no longer be undone.

A deleted chat is in the trash, and can be restored, for `chats.TRASH_DAYS` days. Then, or when the
user says so, nothing of it is left: not in copies of the file of chats either, nor in a damaged
file that was kept. A file of chats that the user put aside stays, and its pictures with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import ParamSpec

from PySide6.QtCore import QObject, Signal

from core.api.errors import NotDeletedError, WaymarkError
from core.client.blobs import BlobStore
from desktop.chat.chat import ChatController
from desktop.chat.replies import Replies
from desktop.chats.chats import ChatsController
from desktop.chats.pending_deletions import PendingDeletions
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store import trash_clock
from desktop.store.folders import Folders
from desktop.store.recovery import copies
from desktop.store.tables import chats, fields, pictures
from desktop.words.chats import not_deleted

P = ParamSpec("P")
Purge = Callable[[sqlite3.Connection], set[int]]

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
        services: Services,
        chats: ChatsController,
        chat: ChatController,
        replies: Replies,
        pictures: PictureController,
        pending: PendingDeletions,
        folders: Folders,
    ) -> None:
        super().__init__()
        self._chats = chats
        self._chat = chat
        self._replies = replies
        self._pictures = pictures
        self._pending_deletions = pending
        self._database = services.database
        self._folders = folders
        self._tasks = services.tasks
        chats.time_passed.connect(
            lambda: services.tasks.spawn(self.purge_old(), "Deleting old chats for good")
        )

    def delete_everything(self) -> None:
        """All chats, drafts, pictures, and what was read of them; settings stay."""
        self._tasks.spawn(self._delete_everything(), "Deleting all data")

    def delete_for_good(self, chat: int | None = None) -> None:
        """Delete this chat of the trash, or all of it."""
        self._tasks.spawn(self.purge(chat), "Deleting a chat for good")

    async def purge(self, chat: int | None = None) -> None:
        """Delete this chat of the trash (or all of it) for good, and what only it used.

        Raises NotDeletedError, StoreError.
        """
        await self._purge(partial(chats.purge, chat=chat))

    async def purge_old(self, spare: Collection[Path] = ()) -> None:
        """Delete for good what has been in the trash for long enough, and what nobody uses.

        `spare` are copies that nobody was told of yet. Raises NotDeletedError, StoreError.
        """
        await self._purge(await self._old_ones(), spare)

    async def close(self) -> None:
        """The same at the end, while the engine still runs; call when no task runs."""
        try:
            # Closing the file empties its log.
            await self._delete_rows_and_files(await self._old_ones())
        finally:
            with contextlib.suppress(WaymarkError, TimeoutError):
                await asyncio.wait_for(self._pending_deletions.send_all(), CLOSING_PATIENCE_S)

    async def _purge(self, purge: Purge, spare: Collection[Path] = ()) -> None:
        try:
            await self._delete_rows_and_files(purge, spare)
        finally:
            self._pending_deletions.send()
            try:
                await self._database.leave_no_trace()
            finally:
                await self._chats.refresh()

    async def _delete_rows_and_files(self, purge: Purge, spare: Collection[Path] = ()) -> None:
        async with self._pictures.held():
            purged = await self._database.run(purge)
            try:
                self._chat.forget(purged)
                await deleted(BlobStore(self._folders.pictures).sweep)
                if purged:
                    await deleted(copies.remove, self._folders.database, spare)
            finally:
                if purged or not copies.names_pictures(self._folders.database):
                    await self._remove_unused(self._chat.digests())

    async def _old_ones(self) -> Purge:
        """Delete the chats that have been in the trash for long enough."""
        clock = partial(trash_clock.confirmed, self._folders.data / trash_clock.NAME, time.time())
        now: float | None = None
        with contextlib.suppress(OSError):  # without a clock nothing is old
            now = await asyncio.get_running_loop().run_in_executor(None, clock)
        return partial(chats.purge, before=0.0 if now is None else now - chats.TRASH_S)

    async def _delete_everything(self) -> None:
        for chat in {live.chat for live in self._replies.live.values()}:
            await self._replies.stop_chat(chat)
        self._chat.forget_everything()
        async with self._pictures.held():
            await self._database.run(chats.delete_everything)
            try:
                await deleted(copies.remove_all, self._folders.database)
                await deleted(BlobStore(self._folders.pictures).sweep)
            finally:
                self._pending_deletions.send()
                await self._remove_unused(set())
                await self._chats.refresh()
                await self._database.leave_no_trace()
        self.everything_gone.emit()

    async def _remove_unused(self, held: set[str]) -> None:
        known = await self._database.run(pictures.digests)
        used = held | await self._database.run(pictures.collect_garbage)
        # Of what no chat ever knew, a file that was kept may show it.
        kept = copies.names_pictures(self._folders.database)
        await deleted(remove_unused, self._folders.pictures, used, known if kept else None)


async def deleted(work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Delete files in a thread. Raises NotDeletedError when the system refuses."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs))
    except OSError as error:
        raise NotDeletedError(not_deleted(error.filename, error.strerror)) from error


def remove_unused(folder: Path, used: set[str], known: set[str] | None = None) -> None:
    """Delete the picture files that are not in use, of those that were `known` if that is given.

    What is no picture file stays. Raises OSError when the system refuses.
    """
    blobs = BlobStore(folder)
    for path in folder.glob("??/*"):
        name = path.name
        if fields.is_digest(name) and name not in used and (known is None or name in known):
            blobs.remove(name)
