"""Deletes chats for good, at once or 30 days after they went to the trash.

Rows, pictures, backups and damaged files go, and the engine forgets the contexts: keys are stored
until it confirms. Files put aside by the user stay, with their pictures.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import NamedTuple, ParamSpec

from PySide6.QtCore import Signal

from core.api.commands import Forget
from core.api.errors import EngineDiedError, NotDeletedError, WaymarkError
from core.client.blobs import BlobStore
from core.system.private_files import write_whole
from desktop.chat.chat import ChatController
from desktop.chats.chats import ChatsController
from desktop.engine.engine_status import Phase
from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.pictures.pictures import PictureController
from desktop.search.search import SearchController
from desktop.services import Controller, Services
from desktop.store import backups, restored
from desktop.store.folders import Folders
from desktop.store.tables import attachments, chats, fields, message_tree
from desktop.store.tables.records import DeletedMessages

P = ParamSpec("P")


class Purged(NamedTuple):
    """Chats deleted for good, and whether messages of others were."""

    chats: set[int]
    messages: bool


Purge = Callable[[sqlite3.Connection], Purged]

# A worker that doesn't answer must not keep the window open; the next start sends the queue.
CLOSING_PATIENCE_S = 3.0
CLOCK_NAME = "trash-clock.json"
CONFIRMED_AFTER_S = 86_400.0


class Deletion(Controller):
    everything_gone = Signal()
    # Why the engine could not forget a chat yet.
    said = Signal(str)

    def __init__(
        self,
        services: Services,
        chats: ChatsController,
        chat: ChatController,
        pictures: PictureController,
        search: SearchController,
        folders: Folders,
        compared: Callable[[], set[str]],
    ) -> None:
        """`compared`: the picture files of a comparison."""
        super().__init__(services)
        self._chats = chats
        self._chat = chat
        self._pictures = pictures
        self._search = search
        self._folders = folders
        self._compared = compared
        # Files of pictures that only a comparison or an edit needs.
        self._spared: set[str] = set()
        self._sending = False
        self._engine.changed.connect(self.send_pending)
        chats.time_passed.connect(
            lambda: self._tasks.spawn(self.purge_old(), tr("Deleting old chats for good"))
        )

    def delete_everything(self) -> None:
        """All but the settings."""
        self._tasks.spawn(self._delete_everything(), tr("Deleting all data"))

    def delete_for_good(self, item: int | DeletedMessages | None = None) -> None:
        self._tasks.spawn(self.purge(item), tr("Deleting for good"))

    async def purge(self, item: int | DeletedMessages | None = None) -> None:
        """Delete one item of the trash, or all. Raises NotDeletedError, StoreError."""
        await self._purge(partial(purged_of, item=item))

    async def purge_old(self, spare: Collection[Path] = ()) -> None:
        """Delete old items, and no copies in `spare`. Raises NotDeletedError, StoreError."""
        await self._purge(await self._old_ones(), spare)

    async def close(self) -> None:
        """Call while the engine runs and no task does."""
        try:
            # Closing the file empties its log.
            await self._delete_rows_and_files(await self._old_ones(), closing=True)
        finally:
            with contextlib.suppress(WaymarkError, TimeoutError):
                await asyncio.wait_for(self._send_all(), CLOSING_PATIENCE_S)

    async def _purge(self, purge: Purge, spare: Collection[Path] = ()) -> None:
        try:
            await self._delete_rows_and_files(purge, spare)
        finally:
            self.send_pending()
            try:
                await self._database.leave_no_trace()
            finally:
                # Deleted data is in no backup: its transaction and the removal came before.
                await self._database.back_up_daily()
                await self._chats.refresh()

    async def _delete_rows_and_files(
        self, purge: Purge, spare: Collection[Path] = (), closing: bool = False
    ) -> None:
        def purge_and_remove(connection: sqlite3.Connection) -> Purged:
            purged = purge(connection)
            attachments.collect_documents(connection)
            if any(purged):
                self._remove_backups(spare)
            return purged

        async with self._pictures.held():
            purged = await self._database.run(purge_and_remove)
            try:
                self._chat.forget(purged.chats)
                if purged.messages and self._chats.shown is not None:
                    # It may have another key now.
                    self._chat.look_again(self._chats.shown)
                await deleted(BlobStore(self._folders.pictures).sweep)
                if any(purged):
                    await deleted(backups.remove, self._folders.database, spare)
                    await self._search.forget()
            finally:
                kept = backups.names_pictures(self._folders.database)
                if any(purged) or self._spared or not kept:
                    compared = set[str]() if closing else self._compared()
                    await self._remove_unused(self._chat.digests() | compared)

    def _remove_backups(self, spare: Collection[Path] = (), aside: bool = False) -> None:
        """Call before a commit, so that a crash leaves none with deleted data."""
        with contextlib.suppress(OSError):
            backups.remove(self._folders.database, spare, aside)

    async def _old_ones(self) -> Purge:
        clock = partial(confirmed_moment, self._folders.data / CLOCK_NAME, time.time())
        now: float | None = None
        with contextlib.suppress(OSError):  # without a clock nothing is old
            now = await asyncio.get_running_loop().run_in_executor(None, clock)
        return partial(purged_of, before=0.0 if now is None else now - chats.TRASH_S)

    async def _delete_everything(self) -> None:
        def delete_and_remove(connection: sqlite3.Connection) -> None:
            chats.delete_everything(connection)
            self._remove_backups(aside=True)

        await self._chats.stop_replies()
        self._chat.forget_everything()
        async with self._pictures.held():
            await self._database.run(delete_and_remove)
            try:
                await self._search.clear()
                await deleted(backups.remove, self._folders.database, aside=True)
                await deleted(restored.discard, self._folders, even_complete=True)
                await deleted(BlobStore(self._folders.pictures).sweep)
            finally:
                self.send_pending()
                await self._remove_unused(set())
                await self._chats.refresh()
                await self._database.leave_no_trace()
        self.everything_gone.emit()

    async def _remove_unused(self, held: set[str]) -> None:
        known = self._spared | await self._database.run(attachments.digests)
        used = restored.digests(self._folders)
        used |= await self._database.run(attachments.collect_pictures)
        self._spared = known & held - used
        used |= held
        # Of what no chat ever knew, a file that was kept may show it.
        kept = backups.names_pictures(self._folders.database)
        await deleted(remove_unused, self._folders.pictures, used, known if kept else None)

    def send_pending(self) -> None:
        status = self._engine.status
        # What a comparison caches is deleted when it has ended.
        if not self._sending and status.runs and status.phase is not Phase.COMPARING:
            self._sending = True
            self._tasks.spawn(self._send(), tr("Forgetting deleted chats"))

    async def _send(self) -> None:
        try:
            await self._send_all()
        except WaymarkError as error:
            # A worker that died is restarted, and its status sends the queue again.
            if error.info().name != EngineDiedError.__name__:
                self.said.emit(
                    tr(
                        "The context of a deleted chat could not be deleted yet: {} Waymark tries "
                        "again at the next start."
                    ).format(in_language(error.message))
                )
        finally:
            self._sending = False

    async def _send_all(self) -> None:
        """Raises WaymarkError if the engine refuses; the rest stays queued."""
        while row := await self._database.run(chats.next_to_forget):
            command = Forget(chat=row.key, cache_folder=str(self._folders.contexts))
            await self._engine.client.ask(command).last()
            await self._database.run(chats.confirm_forgotten, row.number)


def purged_of(
    connection: sqlite3.Connection,
    item: int | DeletedMessages | None = None,
    before: float | None = None,
) -> Purged:
    """Delete an item of the trash, what was deleted `before`, or all of it."""
    if isinstance(item, DeletedMessages):
        return Purged(set(), message_tree.purge(connection, item))
    gone = chats.purge(connection, item, before)
    return Purged(gone, item is None and message_tree.purge(connection, None, before))


async def deleted(work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call `work` in a thread. Raises NotDeletedError."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs))
    except OSError as error:
        raise NotDeletedError(
            tr(
                "{file} could not be deleted: {reason}. Waymark tries again the next time a chat "
                "is deleted for good."
            ).format(file=error.filename, reason=error.strerror)
        ) from error


def remove_unused(folder: Path, used: set[str], known: set[str] | None = None) -> None:
    """Only `known` files if given. Raises OSError."""
    blobs = BlobStore(folder)
    for path in folder.glob("??/*"):
        name = path.name
        if fields.is_digest(name) and name not in used and (known is None or name in known):
            blobs.remove(name)


def confirmed_moment(path: Path, now: float) -> float | None:
    """The latest moment that a call at least a day later confirmed.

    The trash counts by it: a clock that jumps ahead would empty it at once. Raises OSError.
    """
    seen, trusted = _clock(path)
    if trusted is not None and trusted > now:
        trusted = None  # the clock was ahead then
    if seen is None or seen > now:
        seen = now
    elif now - seen >= CONFIRMED_AFTER_S:
        seen, trusted = now, seen
    if (seen, trusted) != _clock(path):
        write_whole(path, json.dumps({"seen": seen, "confirmed": trusted}).encode())
    return trusted


def _clock(path: Path) -> tuple[float | None, float | None]:
    try:
        kept = json.loads(path.read_bytes())
        seen, trusted = kept["seen"], kept["confirmed"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None, None
    return (
        seen if isinstance(seen, int | float) else None,
        trusted if isinstance(trusted, int | float) else None,
    )
