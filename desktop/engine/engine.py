"""The engine for the window: starts it, loads models, and reports one status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.commands import DeleteMatrices
from core.api.errors import ErrorInfo, NoModelError, RequestCancelled, WaymarkError
from core.api.model_info import ModelInfo
from core.api.params import ModelSettings
from core.client.client import ANSWERING, EngineClient
from core.client.life import RESTARTED_WORDS, EngineState
from core.client.requests import EngineError
from desktop.engine.engine_status import EngineStatus, Phase, remember_names, shown_name
from desktop.engine.error_words import in_language
from desktop.engine.tasks import Tasks
from desktop.i18n import tr


class EngineController(QObject):
    # The new EngineStatus.
    changed = Signal(object)
    # ModelInfo: a model is ready, after a load or a restart.
    model_loaded = Signal(object)
    # ErrorInfo: a requested load failed or was cancelled.
    load_failed = Signal(object)
    # Why a model was not loaded.
    not_loaded = Signal(str)
    said = Signal(str)

    def __init__(self, engine: EngineClient, tasks: Tasks) -> None:
        super().__init__()
        self.client = engine
        self.status = EngineStatus()
        self._tasks = tasks
        self._own_loads = 0
        self._wanted: ModelSettings | None = None
        # Settings of the last model that loaded.
        self.loaded: ModelSettings | None = None
        self._failure: ErrorInfo | None = None
        self._lent = False
        # Settings of the model before the engine was lent.
        self._before: ModelSettings | None = None
        self._waiting: list[asyncio.Future[None]] = []
        engine.subscribe(self._on_state)

    @property
    def model(self) -> ModelInfo | None:
        return self.status.model

    def begin(self, settings: ModelSettings) -> None:
        self._wanted = settings
        self._tasks.spawn(self._begin(), tr("Starting the engine"))

    def load(self, settings: ModelSettings) -> None:
        """Runs in the background, and cancels a load in progress."""
        self._wanted, self._failure = settings, None
        if self._lent:
            return  # `take_back` loads it.
        self.client.cancel_load()
        # An engine that is starting loads `_wanted` afterwards.
        if self.client.state is not EngineState.STARTING:
            self._tasks.spawn(self._load(settings), tr("Loading a model"))

    def restart(self) -> None:
        """Works in any state, with the model wanted last."""
        if self.client.state in (EngineState.STARTING, EngineState.RESTARTING):
            self.said.emit(tr("The engine is already starting."))
        elif self.client.state in ANSWERING:
            self._tasks.spawn(self.client.restart(), tr("Starting the engine again"))
        elif self._wanted is not None:
            self.load(self._wanted)
        else:
            self._tasks.spawn(self._begin(), tr("Starting the engine"))

    def unload(self) -> None:
        """A restart loads none."""
        self._wanted = None
        self._tasks.spawn(self._unload(), tr("Ejecting the model"))

    def sleep(self) -> None:
        """Free the memory of a model that is ready, until `wake`."""
        self._tasks.spawn(self._sleep(), tr("Ejecting the model"))

    def wake(self) -> None:
        if self.status.asleep and self._wanted is not None:
            self.load(self._wanted)

    async def until_loaded(self) -> ModelInfo:
        """The model that was asked for last, once it is loaded. Raises WaymarkError."""
        wanted = self._wanted
        await self.until(
            lambda status: (
                self._failure is not None
                or self._wanted is not wanted
                or status.phase in (Phase.FAILED, Phase.CLOSED)
                or (status.phase is Phase.READY and self.loaded is wanted)
            )
        )
        if self._failure is not None:
            raise EngineError(self._failure)
        if self.model is None or self.loaded is not wanted:
            raise NoModelError(tr("Another model was chosen meanwhile."))
        return self.model

    def lend(self) -> None:
        """Only the caller uses the client until `take_back`."""
        if self.status.model is None and not self.status.asleep:
            self._wanted = None
        self._lent, self._before, self._failure = True, self._wanted, None
        self._set(EngineStatus(Phase.COMPARING))

    async def take_back(self) -> None:
        """Load the model chosen meanwhile; without one, or if that fails, the one before."""
        await self.until_settled()
        if self.client.model is not None and self.client.wanted != self._wanted:
            # Otherwise it would stay if the load fails.
            with contextlib.suppress(WaymarkError):  # an engine that died meanwhile has none
                await self.client.unload()
            await self.until_settled()
        self._lent, wanted, before = False, self._wanted, self._before
        there = self.client.model is not None and self.client.wanted == wanted
        if there or (wanted is None and self.client.state in ANSWERING):
            self.loaded = wanted
            self._rest("")
        elif wanted is None:
            await self._begin()
        else:
            # A restarted engine may be loading its last model again.
            self.client.cancel_load()
            await self._load(wanted)
            failed = self._failure is not None and self._wanted is wanted
            if failed and before is not None and before != wanted:
                self._wanted, trouble = before, self.status.trouble
                await self._load(before)
                if trouble and self.model is not None:
                    # Loading this one took the notice back.
                    self.not_loaded.emit(trouble)

    async def until_settled(self) -> None:
        await self.until(lambda _: self.client.state is not EngineState.RESTARTING)

    def cancel_load(self) -> None:
        self.client.cancel_load()

    def delete_matrices(self, contexts: Path) -> None:
        self._tasks.spawn(self._delete_matrices(contexts), tr("Deleting quantised weights"))

    async def until(self, condition: Callable[[EngineStatus], bool]) -> None:
        while not condition(self.status):
            await self.until_other()

    async def until_other(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    async def close(self) -> None:
        self._set(EngineStatus(Phase.CLOSED))
        await self.client.close()

    async def _delete_matrices(self, contexts: Path) -> None:
        await self.client.ask(DeleteMatrices(cache_folder=str(contexts))).last()
        model = self.status.model
        if model is not None:
            load = model.load.model_copy(update={"kept_bytes": 0})
            self._set(replace(self.status, model=model.model_copy(update={"load": load})))

    async def _unload(self) -> None:
        await self.client.unload()
        if self._wanted is None:
            self.loaded = None
            self._rest("")

    async def _sleep(self) -> None:
        if self.status.phase is Phase.READY:
            # A message that is sent from now on loads the model after it has gone.
            self._set(EngineStatus(Phase.EMPTY, asleep=True))
            await self.client.unload()

    async def _begin(self) -> None:
        if await self._started():
            if self._wanted is not None:
                await self._load(self._wanted)
            else:
                self._rest("")

    async def _started(self) -> bool:
        try:
            await self.client.start()
        except WaymarkError as error:
            self._set(EngineStatus(Phase.FAILED, trouble=in_language(error.message)))
            return False
        return True

    async def _load(self, settings: ModelSettings) -> None:
        if self.client.state is EngineState.FAILED:
            return await self._begin()
        # During a restart, commands would be refused.
        await self.until(lambda status: status.phase is not Phase.RESTARTING)
        if settings is not self._wanted:
            return
        self._own_loads += 1
        self._set(EngineStatus(Phase.LOADING))
        failure: ErrorInfo | None = None
        try:
            await self.client.load(settings, self._on_progress)
            self.loaded = settings
        except WaymarkError as error:
            failure = error.info()
        finally:
            self._own_loads -= 1
        if settings is not self._wanted:
            return  # A newer load reports the outcome.
        if self.client.state not in ANSWERING and self.client.wanted is settings:
            return  # Restarting: the client loads it again.
        if failure is None:
            self._rest("")
            return
        if self.client.model is not None:
            # The previous model stays loaded, and a restart loads it.
            self._wanted = self.loaded
        self._failure = failure
        # Before the reason is shown, so that the settings no longer name the folder that failed.
        self.load_failed.emit(failure)
        if failure.name == RequestCancelled.__name__:
            self._rest("", cancelled=True)
        else:
            words = tr("{model} was not loaded. {title}: {message}")
            name = shown_name(settings.path)
            title, message = in_language(failure.title), in_language(failure.message)
            trouble = words.format(model=name, title=title, message=message)
            self._rest(trouble)
            self.not_loaded.emit(trouble)

    def _rest(self, trouble: str, cancelled: bool = False) -> None:
        model = self.client.model
        if self.client.state not in ANSWERING:
            return
        if model:
            remember_names({model.path: model.name})
        phase = Phase.READY if model else Phase.EMPTY
        self._set(EngineStatus(phase, model, trouble=trouble, cancelled=cancelled))
        if model and not trouble:
            self.model_loaded.emit(model)

    def _on_progress(self, done: int, total: int) -> None:
        # Each tensor is reported; only whole percents are shown.
        news = 100 * done // max(1, total) != 100 * self.status.done // max(1, total)
        if news and self.client.state in ANSWERING:
            self._set(EngineStatus(Phase.LOADING, done=done, total=total))

    def _on_state(self, state: EngineState, reason: str) -> None:
        if self._lent and state in (*ANSWERING, EngineState.RESTARTING, EngineState.FAILED):
            silent = state is EngineState.SILENT
            self._set(EngineStatus(Phase.COMPARING, silent=silent))
            return
        words = in_language(reason)
        match state:
            case EngineState.STARTING:
                self._set(EngineStatus(Phase.STARTING))
            case EngineState.SILENT:
                self._set(replace(self.status, silent=True))
            case EngineState.READY if self.status.silent:
                self._set(replace(self.status, silent=False))
            case EngineState.RESTARTING:
                self._set(EngineStatus(Phase.RESTARTING, trouble=words or self.status.trouble))
                if reason != RESTARTED_WORDS:
                    self.said.emit(words)
            case EngineState.FAILED:
                self._set(EngineStatus(Phase.FAILED, trouble=words))
                self.said.emit(words)
            case EngineState.READY if not self._own_loads:
                self._on_ready(words)
            case _:
                pass

    def _on_ready(self, words: str) -> None:
        """After a crash the client reloads the last model itself."""
        if words or self.client.model:
            self.loaded = self.client.wanted or self.loaded
            self._rest(words)
            if words:
                self.said.emit(words)
        elif self.status.phase is Phase.RESTARTING:
            phase = Phase.LOADING if self.client.wanted else Phase.EMPTY
            self._set(EngineStatus(phase, trouble=self.status.trouble))

    def _set(self, status: EngineStatus) -> None:
        self.status = status
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.changed.emit(status)
