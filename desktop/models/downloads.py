"""Downloads of models for the window, and the hub's answers.

A search or a download starts the process that connects, unless the network is forbidden.
"""

from __future__ import annotations

import enum
import tomllib
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.errors import ErrorInfo, WaymarkError
from core.client.programs import RESOURCES
from core.downloads import jobs
from core.downloads.client import DownloadNews, DownloadsClient
from core.downloads.jobs import Job
from core.downloads.messages import (
    HUB,
    Completed,
    Connection,
    Paused,
    Plan,
    Progress,
    Repository,
    Stopped,
)
from core.system.secrets import Secrets
from desktop.engine.error_words import in_language
from desktop.engine.tasks import Tasks, answered
from desktop.i18n import tr
from desktop.numbers import format_bytes, format_seconds
from desktop.settings.settings import SettingsController
from desktop.store.folders import Folders
from desktop.store.settings import NetworkSettings

MEGABYTE = 10**6


class OfflineError(WaymarkError, title="The network is forbidden"): ...


class Stage(enum.Enum):
    STARTING = enum.auto()
    RUNNING = enum.auto()
    PAUSED = enum.auto()
    STOPPED = enum.auto()
    COMPLETE = enum.auto()


RUNNING = (Stage.STARTING, Stage.RUNNING)


@dataclass(frozen=True, slots=True)
class ShownDownload:
    """`speed` is in bytes a second."""

    job: Job
    stage: Stage
    done: int
    speed: float = 0.0
    waiting: str = ""
    checking: bool = False
    elsewhere: bool = False
    error: ErrorInfo | None = None

    @property
    def total(self) -> int:
        return self.job.plan.size

    @property
    def name(self) -> str:
        return f"{self.job.plan.repository}, {self.job.plan.choice}"

    def words(self) -> str:
        amount = tr("{done} of {total}").format(
            done=format_bytes(self.done), total=format_bytes(self.total)
        )
        if self.elsewhere:
            return tr("{amount}, downloading in another Waymark").format(amount=amount)
        match self.stage:
            case Stage.COMPLETE:
                return tr(
                    "Complete: {total}, every file checked against its published digest."
                ).format(total=format_bytes(self.total))
            case Stage.STOPPED if self.error is not None:
                return tr("Stopped at {amount}. {title}: {message}").format(
                    amount=amount,
                    title=in_language(self.error.title),
                    message=in_language(self.error.message),
                )
            case Stage.STARTING:
                return tr("{amount}, starting").format(amount=amount)
            case Stage.RUNNING:
                return f"{amount}, {self._going()}"
            case _:
                return tr("Paused at {amount}").format(amount=amount)

    def _going(self) -> str:
        if self.waiting:
            reason = in_language(self.waiting)
            return tr("waiting to try again: {reason}").format(reason=reason)
        if self.checking:
            return tr("checking the part that is downloaded")
        if self.speed < 1:
            return tr("no data is arriving")
        return tr("{speed} a second, {time} left").format(
            speed=format_bytes(int(self.speed)),
            time=format_seconds((self.total - self.done) / self.speed),
        )


class DownloadsController(QObject):
    # The list, or how far a download is.
    changed = Signal()
    # ErrorInfo: why a download can't begin or be deleted.
    refused = Signal(object)

    def __init__(
        self,
        tasks: Tasks,
        settings: SettingsController,
        folders: Folders,
        secrets: Secrets,
    ) -> None:
        super().__init__()
        self._tasks, self._settings = tasks, settings
        self._usual_folder = folders.data / "models"
        log = folders.engine_log.with_name("downloads.log")
        self._client = DownloadsClient(self._hear, log)
        # The hub whose token was typed since the start.
        self._secrets, self._typed_for = secrets, ""
        self.shown: dict[str, ShownDownload] = {}

    @property
    def network(self) -> NetworkSettings:
        return self._settings.settings.network

    @property
    def folder(self) -> Path:
        chosen = self.network.models_folder
        return Path(chosen) if chosen else self._usual_folder

    @property
    def hub(self) -> str:
        return self.network.hub or HUB

    @property
    def has_token(self) -> bool:
        return self.hub in (self.network.token_for, self._typed_for)

    def token_place(self) -> str:
        if not self.has_token:
            return tr("none")
        kept = self.network.token_for == self.hub
        return tr("in the system's keyring") if kept else tr("in memory, until you quit")

    def change(self, network: NetworkSettings, token: str | None = None) -> None:
        """`token` '' deletes it. Forbidding the network ends the process that connects."""
        self._settings.put(network=network)
        self._tasks.spawn(self._apply(token), tr("Changing the connection"))

    async def search(self, text: str) -> tuple[Repository, ...]:
        """Only what Waymark runs. Raises WaymarkError."""
        await self._connect()
        return await self._client.search(text)

    async def look(self, repository: str) -> Repository:
        """The repository with its files. Raises WaymarkError."""
        await self._connect()
        return await self._client.look(repository)

    def find_unfinished(self) -> None:
        self._tasks.spawn(self._find_unfinished(), tr("Looking for downloads"))

    def begin(self, plan: Plan) -> None:
        self._tasks.spawn(self._begin(plan), tr("Starting a download"))

    def resume(self, work: str) -> None:
        self._tasks.spawn(self._resume(work), tr("Resuming a download"))

    def pause(self, work: str) -> None:
        if self._is_starting(work):
            self._show(replace(self.shown[work], stage=Stage.PAUSED))
        self._tasks.spawn(self._client.pause(Path(work)), tr("Pausing a download"))

    def discard(self, work: str) -> None:
        """The download must not be running."""
        self._tasks.spawn(self._discard(work), tr("Deleting a download"))

    async def close(self) -> None:
        """Keeps what has arrived."""
        await self._client.close()

    async def _connect(self) -> None:
        self._check_allowed()
        connection = await self._connection()
        self._check_allowed()
        await self._client.configure(connection)

    def _check_allowed(self) -> None:
        if not self.network.allowed:
            raise OfflineError(tr("Allow Waymark to connect first; the switch is in this window."))

    async def _connection(self) -> Connection:
        hub = token = ""
        # The keyring may wait for the user, who may choose another hub meanwhile.
        while hub != self.hub:
            hub = self.hub
            token = await self._secrets.read(_secret(hub)) if self.has_token else ""
        network = self.network
        return Connection(
            hub=hub,
            proxy=network.proxy,
            token=token,
            bytes_per_second=network.megabytes_per_second * MEGABYTE,
        )

    async def _keep_token(self, token: str) -> None:
        """Only the token of the hub in use is kept."""
        hub, before = self.hub, self.network.token_for
        if before not in ("", hub):
            await self._secrets.write(_secret(before), "")
        written = await self._secrets.write(_secret(hub), token)
        # One that the keyring doesn't give up is still there.
        kept = written if token else before == hub and not written
        self._typed_for = hub if token else ""
        now = {"token_for": hub if kept else ""}
        self._settings.put(network=self.network.model_copy(update=now))
        self.changed.emit()

    async def _apply(self, token: str | None) -> None:
        if token is not None:
            await self._keep_token(token)
        if self.network.allowed:
            await self._client.configure(await self._connection())
        else:
            await self._client.close()
        await self._find_unfinished()

    async def _find_unfinished(self) -> None:
        found = await answered(partial(_found, self.folder))
        for job, done, elsewhere in found:
            unknown = ShownDownload(job, Stage.PAUSED, done, elsewhere=elsewhere)
            self.shown.setdefault(str(job.work), unknown)
        self.changed.emit()

    async def _begin(self, plan: Plan) -> None:
        try:
            job = await answered(partial(jobs.create, self.folder, plan))
        except WaymarkError as error:
            self.refused.emit(error.info())
            return
        work = str(job.work)
        if work not in self.shown or self.shown[work].stage is Stage.COMPLETE:
            self.shown[work] = ShownDownload(job, Stage.PAUSED, 0)
        await self._resume(work)

    async def _resume(self, work: str) -> None:
        found = self.shown[work]
        if found.stage in RUNNING:
            return
        self._show(replace(found, stage=Stage.STARTING, error=None))
        models = found.job.work.parent.parent
        try:
            # Another Waymark may have completed it meanwhile.
            await answered(partial(jobs.create, models, found.job.plan))
            await self._connect()
            # The keyring may have waited for the user, who has paused it meanwhile.
            if self._is_starting(work):
                await self._client.fetch(found.job.work)
        except WaymarkError as error:
            if self._is_starting(work):
                self._show(replace(found, stage=Stage.STOPPED, error=error.info()))

    def _is_starting(self, work: str) -> bool:
        return work in self.shown and self.shown[work].stage is Stage.STARTING

    async def _discard(self, work: str) -> None:
        found = self.shown.pop(work, None)
        self.changed.emit()
        if found is not None and found.stage is not Stage.COMPLETE:
            try:
                await answered(partial(jobs.discard, found.job))
            except WaymarkError as error:
                self._show(found)
                self.refused.emit(error.info())

    def _show(self, download: ShownDownload) -> None:
        self.shown[str(download.job.work)] = download
        self.changed.emit()

    def _hear(self, news: DownloadNews) -> None:
        found = self.shown.get(news.work)
        if found is None:
            return
        still = replace(found, speed=0.0, waiting="", checking=False, elsewhere=False, error=None)
        match news:
            case Progress():
                found = replace(
                    found,
                    stage=Stage.RUNNING,
                    done=news.done,
                    speed=news.speed,
                    waiting=news.waiting,
                    checking=news.checking,
                    elsewhere=news.elsewhere,
                )
            case Paused():
                found = replace(still, stage=Stage.PAUSED)
            case Stopped():
                found = replace(still, stage=Stage.STOPPED, error=news.error)
            case Completed():
                found = replace(still, stage=Stage.COMPLETE, done=found.total)
        self._show(found)


def _found(folder: Path) -> list[tuple[Job, int, bool]]:
    return [(job, job.received(), jobs.is_claimed(job)) for job in jobs.unfinished(folder)]


def _secret(hub: str) -> str:
    return f"access token for {hub}"


@cache
def catalogue() -> tuple[Repository, ...]:
    text = (RESOURCES / "models" / "catalogue.toml").read_text(encoding="utf-8")
    return tuple(
        Repository(
            name=each["repository"],
            family=each["family"],
            parameters=each["parameters"],
        )
        for each in tomllib.loads(text)["model"]
    )
