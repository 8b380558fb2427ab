"""The window's local server: off at first, and started again with every change."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.errors import ErrorInfo, InvalidRequestError, NotDeletedError, WaymarkError
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, DraftSettings
from core.gguf.library import FoundModel
from core.server.access import digest_of, origin_of
from core.server.kept_replies import delete
from core.server.messages import (
    ContentSeen,
    Listening,
    ModelIs,
    NotListening,
    RequestSeen,
    Serve,
)
from core.server.relay import LocalServer, ServerNews
from core.server.requests.pictures import Pictures
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.engine.error_words import error_text
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.store.folders import DEMO_MODEL, Folders
from desktop.store.settings import ServerSettings

MOST_SHOWN = 50
MOST_CONTENTS = 20
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
    address: str = ""
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
                return error_text(self.error)


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
        find: Callable[[], Awaitable[list[FoundModel]]],
    ) -> None:
        """`find` lists the models on this computer."""
        super().__init__()
        self._tasks, self._settings, self._find = tasks, settings, find
        self._folders = folders
        self.engine = engine
        log = folders.engine_log.with_name("server.log")
        self._server = LocalServer(engine.client, self._hear, self._of_requests, self._use, log)
        # The served model, also while it sleeps, and the paths of those that programs may name.
        self._model: ModelInfo | None = None
        self._paths: dict[str, str] = {}
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
        # Texts of the latest requests by number, only while the user wants to see them.
        self.keeps_content = False
        self.contents: OrderedDict[int, str] = OrderedDict()
        # Why contexts can't be kept on disk, '' if they can, by the last request with numbers.
        self.disk_trouble = ""
        self._listed = QTimer(self, singleShot=True, interval=SHOW_EVERY_MS)
        self._listed.timeout.connect(self.listed)
        engine.changed.connect(self._on_engine)
        # Until the model may sleep.
        self._idle = QTimer(self, singleShot=True)
        self._idle.timeout.connect(self._sleep_if_idle)

    @property
    def settings(self) -> ServerSettings:
        return self._settings.settings.server

    @property
    def address(self) -> str:
        """Has no path."""
        return self.status.address or f"http://127.0.0.1:{self.settings.port}"

    @property
    def replying(self) -> bool:
        on = self.status.stage is Stage.ON
        return on and any(each.state in UNFINISHED for each in self.requests.values())

    def begin(self) -> None:
        """Start if it was on when the window was closed."""
        if self.settings.on:
            self._apply()
            self._sleep_if_idle()

    def change(self, setting: str, value: object) -> None:
        """Switching on first makes a key."""
        changes = {setting: value}
        if changes.get("on") and not self.settings.key:
            changes["key"] = self._make_key()
        self._change(changes)

    def allow_pages(self, addresses: str) -> None:
        origins = list[str]()
        for address in addresses.replace(",", " ").split():
            with contextlib.suppress(InvalidRequestError):
                origins.append(origin_of(address))
        self._change({"origins": tuple(dict.fromkeys(origins))})

    def renew_key(self) -> None:
        """Ends the old one's requests at once."""
        self._change({"key": self._make_key()})

    def hide_key(self) -> None:
        self.new_key = ""
        self.changed.emit()

    def keep_content(self, on: bool) -> None:
        """Until the window is closed; off forgets what was kept."""
        self.keeps_content = on
        self._server.tell_content(on)
        self.contents.clear()
        self.listed.emit()

    def forget(self) -> None:
        """Delete what programs have sent."""
        self._forgetting = True
        self._apply()

    async def close(self) -> None:
        self._idle.stop()
        async with self._changing:
            await self._server.close()
            await self._delete_unwanted()

    @property
    def _keeps(self) -> bool:
        return self._settings.settings.cache.disk_bytes != 0

    async def _delete_unwanted(self) -> None:
        """Call while no process runs. Raises NotDeletedError."""
        # Another request to forget may come meanwhile.
        forgetting, self._forgetting = self._forgetting, False
        try:
            if forgetting or not self._keeps:
                await asyncio.to_thread(delete, self._replies)
            if forgetting:
                # Deletes what a killed process has left.
                await asyncio.to_thread(Pictures, self._pictures)
            forgetting = False
        except OSError as error:
            words = tr("{file} could not be deleted: {reason}.")
            said = words.format(file=error.filename, reason=error.strerror)
            raise NotDeletedError(said) from error
        finally:
            self._forgetting |= forgetting

    def _make_key(self) -> str:
        self.new_key = secrets.token_urlsafe(KEY_BYTES)
        return digest_of(self.new_key)

    def _change(self, changes: dict[str, object]) -> None:
        before = self.settings
        settings = ServerSettings.model_validate({**dict(before), **changes})
        if settings == before:
            return
        self._settings.put(server=settings)
        self._sleep_if_idle()
        # Only a restart, which ends requests, makes the others take effect.
        if settings.model_copy(update={"sleep_min": before.sleep_min}) != before:
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
            try:
                await self._delete_unwanted()
            except NotDeletedError as error:
                self._show(ServerStatus(Stage.FAILED, error=error.info()))
                raise
            if not settings.on:
                return
            serve = Serve(
                port=settings.port,
                lan=settings.lan,
                key=settings.key,
                origins=settings.origins,
                pictures=str(self._pictures),
                replies=str(self._replies) if self._keeps else "",
                steady=settings.steady,
            )
            await self._find_models()
            try:
                await self._server.start(serve)
            except WaymarkError as error:
                self._show(ServerStatus(Stage.FAILED, error=error.info()))

    def _of_requests(self) -> tuple[CacheSettings, DraftSettings]:
        settings = self._settings.settings
        return settings.cache, settings.draft

    def _on_engine(self, status: EngineStatus) -> None:
        if not status.asleep:
            self._model = status.model if status.phase is Phase.READY else None
        self._tell()

    def _tell(self) -> None:
        asleep = self.engine.status.asleep and self._model is not None
        names = tuple(self._paths)
        self._server.serve(ModelIs(model=self._model, names=names, asleep=asleep))

    async def _find_models(self) -> None:
        """Map names to models that programs may have loaded."""
        self._paths = {}
        if self.settings.loads:
            self._paths = {each.name: str(each.path) for each in reversed(await self._find())}
            self._paths[DEMO_MODEL.name] = ""
        self._tell()

    async def _use(self, name: str) -> ModelInfo:
        path, model = self._paths.get(name), self.engine.model
        if path is not None and (model is None or model.path != (path or str(DEMO_MODEL))):
            self._settings.set_model_path(path)
            self._settings.load()
        else:
            self.engine.wake()
        return await self.engine.until_loaded()

    def _sleep_if_idle(self) -> None:
        limit_s = 60 * self.settings.sleep_min
        if not self.settings.on or not limit_s:
            self._idle.stop()
            return
        left_s = limit_s - self.engine.client.idle_s
        if left_s <= 0:
            self.engine.sleep()
            left_s = limit_s
        self._idle.start(1000 * math.ceil(left_s))

    def _hear(self, news: ServerNews) -> None:
        match news:
            case Listening() if self._applied == self._changes:
                self._show(ServerStatus(Stage.ON, news.address))
            case NotListening() if self._applied == self._changes:
                self._show(ServerStatus(Stage.FAILED, error=news.error))
            case RequestSeen():
                self._list(news)
            # While it stops, the server still tells of the requests that this ends.
            case ContentSeen() if self.keeps_content and self.status.stage is Stage.ON:
                self.contents[news.number] = news.text
                while len(self.contents) > MOST_CONTENTS:
                    self.contents.popitem(last=False)
                self._list_soon()
            case ErrorInfo() if self.status.stage is not Stage.FAILED:
                self._show(ServerStatus(Stage.FAILED, error=news))
            case _:
                pass

    def _list(self, seen: RequestSeen) -> None:
        if seen.written:
            trouble, self.disk_trouble = self.disk_trouble, seen.disk_trouble or ""
            if trouble != self.disk_trouble:
                self.changed.emit()
        self.requests[seen.number] = seen
        while len(self.requests) > MOST_SHOWN:
            self.requests.popitem(last=False)
        self._list_soon()

    def _list_soon(self) -> None:
        if not self._listed.isActive():
            self._listed.start()

    def _show(self, status: ServerStatus) -> None:
        if status.stage is not Stage.ON:
            self.contents.clear()
            self._list_soon()
        if status.stage is Stage.STARTING:
            self.requests.clear()
        self.status = status
        self.changed.emit()
