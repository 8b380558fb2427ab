"""Brings the engine up, loads models, and turns what the client reports into one status.

Knows the client's states. What waits for a model is `replies`; what a person reads are the status's
words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from core.api.commands import Answered, DeleteMatrices, Last_co
from core.api.errors import ErrorInfo, RequestCancelled, WaymarkError
from core.api.model_info import ModelInfo
from core.api.params import ModelSettings
from core.client.client import ANSWERING, EngineState
from core.client.life import RESTARTED_WORDS
from core.client.requests import Request
from desktop.engine.engine_status import EngineStatus, Phase, shown_name
from desktop.engine.tasks import Tasks
from desktop.words.frame import STARTING_ALREADY, not_loaded


class Engine(Protocol):
    """What the window asks of `core.client.client.EngineClient`, and of a stand-in for tests."""

    state: EngineState
    model: ModelInfo | None

    @property
    def wanted(self) -> ModelSettings | None: ...

    def subscribe(self, callback: Callable[[EngineState, str], None]) -> None: ...
    async def start(self) -> None: ...
    async def restart(self) -> None: ...
    async def close(self) -> None: ...
    async def load(
        self, settings: ModelSettings, on_progress: Callable[[int, int], None] | None = None
    ) -> ModelInfo: ...
    def cancel_load(self) -> None: ...
    def ask(self, command: Answered[Last_co]) -> Request[Last_co]: ...


class EngineController(QObject):
    """The engine for the whole window.

    Signals:
        changed(EngineStatus): the status is another one.
        model_loaded(ModelInfo): a model is ready, at first or again.
        load_failed(ErrorInfo): a load that was asked for ended without its model, or was cancelled.
        said(str): something worth a short message over the window.
    """

    changed = Signal(object)
    model_loaded = Signal(object)
    load_failed = Signal(object)
    said = Signal(str)

    def __init__(self, engine: Engine, tasks: Tasks) -> None:
        super().__init__()
        self.client = engine
        self.status = EngineStatus()
        self._tasks = tasks
        self._own_loads = 0
        self._wanted: ModelSettings | None = None
        # What the last model that came up was loaded with.
        self.loaded: ModelSettings | None = None
        self._waiting: list[asyncio.Future[None]] = []
        engine.subscribe(self._on_state)

    @property
    def model(self) -> ModelInfo | None:
        return self.status.model

    def begin(self, settings: ModelSettings) -> None:
        """Start the worker and load a model, in the background."""
        self._wanted = settings
        self._tasks.spawn(self._begin(), "Starting the engine")

    def load(self, settings: ModelSettings) -> None:
        """Load a model in place of the present one, in the background; a fallen engine too.

        A load that is still going on is cancelled: nobody waits for its model any more.
        """
        self._wanted = settings
        self.client.cancel_load()
        # An engine that is being started loads what is wanted by then.
        if self.client.state is not EngineState.STARTING:
            self._tasks.spawn(self._load(settings), "Loading a model")

    def restart(self) -> None:
        """Start the engine again, whatever it is doing, with the model that was wanted last."""
        if self.client.state in (EngineState.STARTING, EngineState.RESTARTING):
            self.said.emit(STARTING_ALREADY)
        elif self.client.state in ANSWERING:
            self._tasks.spawn(self.client.restart(), "Starting the engine again")
        elif self._wanted is not None:
            self.load(self._wanted)

    def cancel_load(self) -> None:
        self.client.cancel_load()

    def delete_matrices(self, contexts: Path) -> None:
        """Delete the quantised weights that loads kept in this folder, in the background."""
        self._tasks.spawn(self._delete_matrices(contexts), "Deleting quantised weights")

    async def until(self, condition: Callable[[EngineStatus], bool]) -> None:
        """Wait until the status is such; returns at once if it is."""
        while not condition(self.status):
            await self.until_other()

    async def until_other(self) -> None:
        """Wait until the status changes."""
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

    async def _begin(self) -> None:
        if await self._started() and self._wanted is not None:
            await self._load(self._wanted)

    async def _started(self) -> bool:
        try:
            await self.client.start()
        except WaymarkError as error:
            self._set(EngineStatus(Phase.FAILED, trouble=error.message))
            return False
        return True

    async def _load(self, settings: ModelSettings) -> None:
        if self.client.state is EngineState.FAILED:
            return await self._begin()
        # In the middle of a restart, commands would be refused.
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
            return  # The load that took its place tells how things end.
        if self.client.state not in ANSWERING and self.client.wanted is settings:
            return  # A restart was asked for, and the client loads it again.
        if failure is None:
            self._rest("")
            return
        if self.client.model is not None:
            # It has stayed, and is the one to come back.
            self._wanted = self.loaded
        # First: the folder that failed is no longer the one that is set when its reason is shown.
        self.load_failed.emit(failure)
        if failure.name == RequestCancelled.__name__:
            self._rest("", cancelled=True)
        else:
            self._rest(not_loaded(shown_name(settings.path), failure.title, failure.message))

    def _rest(self, trouble: str, cancelled: bool = False) -> None:
        """The status after a load has ended, one way or the other."""
        model = self.client.model
        if self.client.state not in ANSWERING:
            return
        phase = Phase.READY if model else Phase.EMPTY
        self._set(EngineStatus(phase, model, trouble=trouble, cancelled=cancelled))
        if trouble:
            self.said.emit(trouble)
        elif model:
            self.model_loaded.emit(model)

    def _on_progress(self, done: int, total: int) -> None:
        # Each tensor is reported; what a person can see are percents.
        news = 100 * done // max(1, total) != 100 * self.status.done // max(1, total)
        if news and self.client.state in ANSWERING:
            self._set(EngineStatus(Phase.LOADING, done=done, total=total))

    def _on_state(self, state: EngineState, words: str) -> None:
        match state:
            case EngineState.STARTING:
                self._set(EngineStatus(Phase.STARTING))
            case EngineState.SILENT:
                self._set(replace(self.status, silent=True))
            case EngineState.READY if self.status.silent:
                self._set(replace(self.status, silent=False))
            case EngineState.RESTARTING:
                self._set(EngineStatus(Phase.RESTARTING, trouble=words or self.status.trouble))
                if words != RESTARTED_WORDS:
                    self.said.emit(words)
            case EngineState.FAILED:
                self._set(EngineStatus(Phase.FAILED, trouble=words))
                self.said.emit(words)
            case EngineState.READY if not self._own_loads:
                self._on_ready(words)
            case _:
                pass

    def _on_ready(self, words: str) -> None:
        """The worker is up; after a death the client is loading the last model again by itself."""
        if words or self.client.model:
            self.loaded = self.client.wanted or self.loaded
            self._rest(words)
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
