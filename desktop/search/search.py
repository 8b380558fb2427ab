"""Keeps the search index up to date, and searches all chats."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from PySide6.QtCore import QObject, Signal

from core.client.sqlite_errors import ERRORS, is_damage
from core.client.traces import trace_of
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.search import index
from desktop.search.index import Hit, Query
from desktop.store.folders import Folders
from desktop.store.tables.errors import StoreError, in_words
from desktop.threads import DaemonExecutor

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_HITS = 200
MOST_TITLES = 3
ABOVE_ALL_IDS = 2**62


class SearchController(QObject):
    """`hits` answer the last query, all of them once `is_searching` is False; `missing` messages
    aren't indexed yet."""

    changed = Signal()

    def __init__(self, folders: Folders, tasks: Tasks) -> None:
        super().__init__()
        self.hits: list[Hit] = []
        self.models: list[str] = []
        self.error = ""
        self.is_searching = False
        self.missing = 0
        self._path, self._chats = folders.search_index, folders.database
        self._tasks = tasks
        # One thread: a connection belongs to it, and queries go between the steps of indexing.
        self._executor = DaemonExecutor("search", 1)
        self._connection: sqlite3.Connection | None = None
        self._updating = asyncio.Lock()
        self._is_made_again = False
        # Answers to older queries are dropped.
        self._queries = 0
        self._query: Query | None = None

    def begin(self) -> None:
        self._tasks.spawn(self._update(), tr("Indexing the chats for search"))

    def look_for(self, query: Query | None) -> None:
        self._queries += 1
        self._query = query
        self.is_searching = query is not None
        if query is None:
            self.hits, self.error = [], ""
            self.changed.emit()
        else:
            self._tasks.spawn(self._search(query, self._queries), tr("Searching the chats"))

    async def forget(self) -> None:
        """Remove deleted messages now, even while indexing. Raises StoreError."""
        await self._run(index.drop_stale)
        if self.hits:
            self.look_for(self._query)

    async def clear(self) -> None:
        """Make a new index. Raises StoreError."""
        self.look_for(None)
        with in_words():
            await self._in_thread(self._remove)

    async def close(self) -> None:
        closed = self._executor.submit(self._disconnect)
        self._executor.shutdown()
        await asyncio.wrap_future(closed)

    async def _update(self) -> None:
        try:
            async with self._updating:
                await self._run(index.drop_stale)
                self.missing = await self._run(index.count_missing)
                below = ABOVE_ALL_IDS
                while below := await self._run(index.add_missing, below):
                    self.missing = max(0, self.missing - index.STEP_MESSAGES)
                    self.changed.emit()
                self.missing = 0
                self.models = await self._run(index.models)
                self.changed.emit()
        except StoreError as error:
            self.error = error.message
            self.changed.emit()
            return
        if self._query is not None:
            self.look_for(self._query)

    async def _search(self, query: Query, number: int) -> None:
        """Beginnings of words first: they are found at once in any number of chats."""
        try:
            # A tag stands for all of its chats.
            titles = MOST_HITS if query.tags else MOST_TITLES
            hits = await self._run(index.titled, query, titles)
            hits += await self._run(index.begin_words, query, MOST_HITS)
            self._show(hits, number)
            below = await self._run(index.newest) + 1
            while below > 1 and len(hits) < MOST_HITS and number == self._queries:
                shown = {hit.message for hit in hits}
                more = await self._run(index.scan, query, below, MOST_HITS)
                hits = hits + [hit for hit in more if hit.message not in shown]
                below -= index.SCAN_IDS
            self._show(hits[:MOST_HITS], number, done=True)
        except StoreError as error:
            if number == self._queries:
                self.error, self.is_searching = error.message, False
                self.changed.emit()

    def _show(self, hits: list[Hit], number: int, done: bool = False) -> None:
        if number == self._queries:
            self.hits, self.error, self.is_searching = hits, "", not done
            self.changed.emit()

    async def _run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """A damaged index is made again, and filled once a session, as the chats may be damaged
        instead. Raises StoreError."""
        loop = asyncio.get_running_loop()

        def attempt() -> T:
            return work(self._connected(), *args, **kwargs)

        def persistent() -> T:
            try:
                return attempt()
            except ERRORS as error:
                if not is_damage(error):
                    raise
                log.warning("The search index is made again: %s", trace_of(error))
                self._remove()
                result = attempt()
                if not self._is_made_again:
                    self._is_made_again = True
                    loop.call_soon_threadsafe(self.begin)
                return result

        with in_words():
            return await self._in_thread(persistent)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except OSError as error:
            words = tr("The search index can't be used: {reason}.")
            raise StoreError(words.format(reason=error.strerror)) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = index.open_index(self._path, self._chats)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _remove(self) -> None:
        self._disconnect()
        index.remove(self._path)
