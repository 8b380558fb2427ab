"""Has the engine forget what belonged to deleted chats, as often as it takes.

What is to be forgotten stands in the store until the engine has confirmed, so neither a dead worker
nor a restart of the app leaves anything behind. Works without a model.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.commands import Forget
from core.api.errors import EngineDiedError, WaymarkError
from desktop.services import Services
from desktop.store.tables import pending_deletions
from desktop.words.chats import not_forgotten


class PendingDeletions(QObject):
    """Sends the queue in order, one at a time, whenever the engine runs.

    Signals:
        said(str): why something could not be forgotten yet.
    """

    said = Signal(str)

    def __init__(self, services: Services, contexts: Path) -> None:
        super().__init__()
        self._engine = services.engine
        self._database = services.database
        self._contexts = contexts
        self._tasks = services.tasks
        self._sending = False
        services.engine.changed.connect(self.send)

    def send(self) -> None:
        """Send what waits, in the background."""
        if not self._sending and self._engine.status.runs:
            self._sending = True
            self._tasks.spawn(self._send(), "Forgetting deleted chats")

    async def send_all(self) -> None:
        """Send what waits. Raises WaymarkError when the engine refuses; what is left, stays."""
        while row := await self._database.run(pending_deletions.first):
            command = Forget(chat=row.key, cache_folder=str(self._contexts))
            await self._engine.client.ask(command).last()
            await self._database.run(pending_deletions.confirm, row.number)

    async def _send(self) -> None:
        try:
            await self.send_all()
        except WaymarkError as error:
            # A worker that died comes back, and its news sends the queue again.
            if error.info().name != EngineDiedError.__name__:
                self.said.emit(not_forgotten(error.message))
        finally:
            self._sending = False
