"""The window's local server: off until it is switched on, and started again with every change."""

from __future__ import annotations

import asyncio
import enum
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.errors import ErrorInfo, WaymarkError
from core.api.params import CacheSettings, DraftSettings
from core.server.access import digest_of
from core.server.kept_replies import delete
from core.server.messages import Listening, NotListening, RequestSeen, Serve
from core.server.relay import LocalServer, ServerNews
from core.server.requests.pictures import Pictures
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.store.folders import Folders
from desktop.store.settings import ServerSettings

MOST_SHOWN = 50
# Clients that are refused may ask a thousand times a second.
SHOW_EVERY_MS = 200
KEY_BYTES = 24
# States of requests that are still being answered.
UNFINISHED = ("waiting", "reading", "writing")


class Stage(enum.Enum):
    OFF = enum.auto()
    STARTING = enum.auto()
    ON = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    stage: Stage = Stage.OFF
    port: int = 0
    error: ErrorInfo | None = None

    def words(self) -> str:
        match self.stage:
            case Stage.OFF:
                return tr("Off. No program can connect.")
            case Stage.STARTING:
                return tr("Starting…")
            case Stage.ON:
                return tr("On: programs with the key can connect.")
            case Stage.FAILED:
                assert self.error is not None
                return f"{self.error.title}. {self.error.message}"


class ServerController(QObject):
    # The status, the settings or the key.
    changed = Signal()
    listed = Signal()

    def __init__(
        self,
        tasks: Tasks,
        settings: SettingsController,
        engine: EngineController,
        folders: Folders,
    ) -> None:
        super().__init__()
        self._tasks, self._settings = tasks, settings
        self._folders = folders
        self.engine = engine
        log = folders.engine_log.with_name("server.log")
        self._server = LocalServer(engine.client, self._hear, self._of_requests, log)
        self._changing = asyncio.Lock()
        # The number of changes to the settings, and of the last one that was applied.
        self._changes = self._applied = 0
        self._replies = folders.data / "clients" / "replies.db"
        self._pictures = folders.data / "clients" / "pictures"
        self._forgetting = False
        self.status = ServerStatus()
        # A key that was just made, until it is hidden; only its digest is stored.
        self.new_key = ""
        # The latest requests by number, oldest first.
        self.requests: OrderedDict[int, RequestSeen] = OrderedDict()
        self._listed = QTimer(self, singleShot=True, interval=SHOW_EVERY_MS)
        self._listed.timeout.connect(self.listed)
        engine.changed.connect(self._on_engine)

    @property
    def settings(self) -> ServerSettings:
        return self._settings.settings.server

    @property
    def replying(self) -> bool:
        on = self.status.stage is Stage.ON
        return on and any(each.state in UNFINISHED for each in self.requests.values())

    def begin(self) -> None:
        """Start if it was on when the window was closed."""
        if self.settings.on:
            self._apply()

    def switch(self, on: bool) -> None:
        changes: dict[str, object] = {"on": on}
        if on and not self.settings.key:
            changes["key"] = self._make_key()
        self._change(changes)

    def set_port(self, port: int) -> None:
        self._change({"port": port})

    def allow_lan(self, lan: bool) -> None:
        self._change({"lan": lan})

    def keep_steady(self, steady: bool) -> None:
        self._change({"steady": steady})

    def renew_key(self) -> None:
        """The old one ends at once, and so do its requests."""
        self._change({"key": self._make_key()})

    def hide_key(self) -> None:
        self.new_key = ""
        self.changed.emit()

    def forget(self) -> None:
        """Delete what programs have sent."""
        self._forgetting = True
        self._apply()

    async def close(self) -> None:
        async with self._changing:
            await self._server.close()
            await self._delete_unwanted()

    @property
    def _keeps(self) -> bool:
        return self._settings.settings.cache.disk_bytes != 0

    async def _delete_unwanted(self) -> None:
        """Call while no process runs. Raises OSError."""
        if self._forgetting or not self._keeps:
            await asyncio.to_thread(delete, self._replies)
        if self._forgetting:
            # A killed process has left them.
            await asyncio.to_thread(Pictures(self._pictures).clear)
            self._forgetting = False

    def _make_key(self) -> str:
        self.new_key = secrets.token_urlsafe(KEY_BYTES)
        return digest_of(self.new_key)

    def _change(self, changes: dict[str, object]) -> None:
        settings = ServerSettings.model_validate({**dict(self.settings), **changes})
        if settings != self.settings:
            self._settings.set_server(settings)
            self._apply()

    def _apply(self) -> None:
        self._show(ServerStatus(Stage.STARTING if self.settings.on else Stage.OFF))
        self._changes += 1
        self._tasks.spawn(self._restart(self._changes), tr("Starting the local server"))

    async def _restart(self, change: int) -> None:
        async with self._changing:
            settings = self.settings
            # A later one is on its way.
            if change != self._changes:
                return
            self._applied = change
            await self._server.close()
            await self._delete_unwanted()
            if not settings.on:
                return
            serve = Serve(
                port=settings.port,
                lan=settings.lan,
                key=settings.key,
                pictures=str(self._pictures),
                replies=str(self._replies) if self._keeps else "",
                steady=settings.steady,
                model=self._server.model,
            )
            try:
                await self._server.start(serve)
            except WaymarkError as error:
                self._show(ServerStatus(Stage.FAILED, error=error.info()))

    def _of_requests(self) -> tuple[CacheSettings, DraftSettings]:
        settings = self._settings.settings
        return settings.cache, settings.draft

    def _on_engine(self, status: EngineStatus) -> None:
        self._server.set_model(status.model if status.phase is Phase.READY else None)

    def _hear(self, news: ServerNews) -> None:
        match news:
            case Listening() if self._applied == self._changes:
                self._show(ServerStatus(Stage.ON, news.port))
            case NotListening() if self._applied == self._changes:
                self._show(ServerStatus(Stage.FAILED, error=news.error))
            case RequestSeen():
                self._list(news)
            case ErrorInfo() if self.status.stage is not Stage.FAILED:
                self._show(ServerStatus(Stage.FAILED, error=news))
            case _:
                pass

    def _list(self, seen: RequestSeen) -> None:
        self.requests[seen.number] = seen
        while len(self.requests) > MOST_SHOWN:
            self.requests.popitem(last=False)
        if not self._listed.isActive():
            self._listed.start()

    def _show(self, status: ServerStatus) -> None:
        if status.stage is Stage.STARTING:
            self.requests.clear()
            self._listed.start()
        self.status = status
        self.changed.emit()
