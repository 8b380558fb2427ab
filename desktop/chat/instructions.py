"""The instructions of all chats as they are typed: stored like drafts, used with the next message.

There is no step between typing them and their use that could be forgotten.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from desktop.chat.drafts import STORED_AFTER_MS, Drafts
from desktop.engine.tasks import attempted
from desktop.services import Services
from desktop.store.tables import chats, messages


class Instructions(QObject):
    """What was typed since the start; what was not is in the store."""

    def __init__(self, services: Services, drafts: Drafts) -> None:
        super().__init__()
        self._drafts = drafts
        self._database = services.database
        self._typed: dict[int, str] = {}
        self._unstored: set[int] = set()
        self._timer = QTimer(self, singleShot=True, interval=STORED_AFTER_MS)
        self._timer.timeout.connect(
            lambda: services.tasks.spawn(self._store_all(), "Keeping instructions")
        )

    def put(self, chat: int | None, system: str) -> None:
        """These are typed now; without a chat, for the one that would begin."""
        if chat is None:
            self._drafts.of(None).system = system
        else:
            self._typed[chat] = system
            self._unstored.add(chat)
        if not self._timer.isActive():
            self._timer.start()

    def of(self, chat: int) -> str | None:
        """Those of a chat, if they were typed since the start."""
        return self._typed.get(chat)

    def forget(self, chat: int) -> None:
        """A chat is gone for good."""
        self._typed.pop(chat, None)
        self._unstored.discard(chat)

    async def store(self) -> None:
        """Store what is not yet, before a request reads it. Raises StoreError."""
        for chat in list(self._unstored):
            system = self._typed[chat]
            await self._database.run(chats.instruct, chat, messages.storable(system))
            # More may have been typed meanwhile.
            if self._typed.get(chat) == system:
                self._unstored.discard(chat)

    async def store_at_closing(self) -> None:
        """Store all of them; call when no task runs."""
        await attempted("storing instructions", self.store)

    async def _store_all(self) -> None:
        self._drafts.save(self._drafts.of(None))
        await self.store()
