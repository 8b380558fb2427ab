"""The engine as the window sees it: sends commands, and routes events to their requests.

When the worker dies, open requests fail with the reason, and the next worker loads the last model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from core.api.commands import Answered, Cancel, Command, Flush, Last_co, LoadModel, UnloadModel
from core.api.errors import EngineDiedError, WaymarkError
from core.api.events import Answer, Event, Failed, Loaded, Loading
from core.api.model_info import ModelInfo
from core.api.params import ModelSettings
from core.client.life import EngineState, WorkerLife
from core.client.requests import Request, RequestTable, spawn
from core.client.transport import default_command

# The longest wait when the window closes, and the part of it spent on writing.
FLUSH_PATIENCE_S = 5.0
FLUSH_S = 4.5

# States in which commands are sent.
ANSWERING = (EngineState.READY, EngineState.SILENT)

StateCallback = Callable[[EngineState, str], None]


class EngineClient:
    """All methods belong to the event loop's thread."""

    def __init__(self, log_file: Path | None = None, command: Sequence[str] | None = None) -> None:
        self.state = EngineState.CLOSED
        self.model: ModelInfo | None = None
        self._requests = RequestTable()
        self._life = WorkerLife(
            command or default_command(),
            log_file,
            changed=self._changed,
            received=self._received,
            died=self._died,
            came_back=self._reload,
            awaited=lambda: bool(self._requests.open_numbers),
        )
        self._subscribers: list[StateCallback] = []
        self._settings: ModelSettings | None = None
        self._loading: Request[Loaded] | None = None
        self._loading_settings: ModelSettings | None = None
        self._sending = asyncio.Lock()
        self._active_at = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()

    def subscribe(self, callback: StateCallback) -> None:
        """Call `callback(state, reason)` at each change; the reason may be ''."""
        self._subscribers.append(callback)

    @property
    def wanted(self) -> ModelSettings | None:
        return self._loading_settings or self._settings

    @property
    def worker_pid(self) -> int | None:
        return self._life.pid

    @property
    def idle_s(self) -> float:
        """Seconds since the last request; 0 while one is open."""
        return 0.0 if self._requests.open_numbers else time.monotonic() - self._active_at

    async def start(self) -> None:
        await self._life.start()

    async def restart(self) -> None:
        # The user asked for it, so a model that was being loaded isn't suspect.
        self._settings = self.wanted
        if self.state is EngineState.FAILED:
            await self.start()
            self._reload()
        elif self.state in ANSWERING:
            self._life.restart()

    async def close(self, flush: bool = True) -> None:
        """Cancel open requests, write contexts to disk (`flush`), end the worker. Idempotent."""
        if flush and self.state is EngineState.READY and self.model is not None:
            for number in self._requests.open_numbers:
                self.cancel(number)
            try:
                await asyncio.wait_for(self.ask(Flush(seconds=FLUSH_S)).last(), FLUSH_PATIENCE_S)
            except TimeoutError:
                return await self._end(kill=True)
            except WaymarkError:
                pass
        await self._end(kill=False)

    async def kill(self) -> None:
        await self._end(kill=True)

    async def _end(self, kill: bool) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._life.end(kill)
        self._requests.fail_all(EngineDiedError("The engine was closed.").info())

    async def load(
        self, settings: ModelSettings, on_progress: Callable[[int, int], None] | None = None
    ) -> ModelInfo:
        return await self._loaded(self._start_load(settings), settings, on_progress)

    def cancel_load(self) -> None:
        if self._loading is not None:
            self._loading.cancel()

    def _start_load(self, settings: ModelSettings) -> Request[Loaded]:
        self._loading_settings = settings
        self._loading = self.ask(LoadModel(settings=settings))
        return self._loading

    async def _loaded(
        self,
        request: Request[Loaded],
        settings: ModelSettings,
        on_progress: Callable[[int, int], None] | None,
    ) -> ModelInfo:
        def forward(event: Answer) -> None:
            if isinstance(event, Loading) and on_progress is not None:
                on_progress(event.done, event.total)

        try:
            loaded = await request.last(forward)
        finally:
            # Another load may have begun meanwhile.
            if self._loading_settings is settings:
                self._loading_settings = None
        self._settings, self.model = settings, loaded.model
        return loaded.model

    async def unload(self) -> None:
        await self.ask(UnloadModel()).last()
        self._settings = self.model = None

    def ask(self, command: Answered[Last_co]) -> Request[Last_co]:
        """Iterate over the request's events, or wait for the last one."""
        self._active_at = time.monotonic()
        request = self._requests.open(command, self.cancel)
        spawn(self._send(request.command), self._tasks)
        return request

    def cancel(self, request: int) -> None:
        spawn(self._send(Cancel(target=request)), self._tasks)

    async def _send(self, command: Command) -> None:
        # The lock keeps commands in order: Cancel after its Generate.
        async with self._sending:
            try:
                await self._life.send(command)
            except WaymarkError as error:
                self._requests.fail(command.request, error.info())

    def _changed(self, state: EngineState, words: str) -> None:
        self.state = state
        for callback in list(self._subscribers):
            callback(state, words)

    def _received(self, event: Event) -> None:
        if isinstance(event, Failed) and event.no_model:
            self._settings = self.model = None
        self._active_at = time.monotonic()
        self._requests.route(event)

    def _died(self, words: str) -> None:
        self.model = None
        self._requests.fail_all(EngineDiedError(words).info())

    def _reload(self) -> None:
        """Load the last model again, once: it may be what killed the worker.

        Called before the new state is announced, so no request finds the engine without a model.
        """
        settings, self._settings = self._settings, None
        if settings is not None:
            spawn(self._reloaded(self._start_load(settings), settings), self._tasks)

    async def _reloaded(self, request: Request[Loaded], settings: ModelSettings) -> None:
        words = ""
        try:
            await self._loaded(request, settings, None)
        except WaymarkError as error:
            # A worker that died meanwhile announces its own state.
            if self.state not in ANSWERING:
                return
            words = f"The model could not be loaded again: {error.message}"
        self._changed(EngineState.READY, words)
