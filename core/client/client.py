"""The engine as the window sees it: ask, listen, and outlive every death of the worker.

`EngineClient` starts the worker, sends commands, routes events to their requests, and when the
process dies it fails what was open with the reason, starts another with growing pauses and loads
the last model again. It never imports torch and knows no pipes (`transport` does).
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from core.api.chat import Conversation, ImagePart
from core.api.commands import (
    PROTOCOL_VERSION,
    Cancel,
    ClearCache,
    Command,
    DescribeImage,
    Flush,
    Forget,
    Generate,
    LoadModel,
    ReadAhead,
    Settle,
    UnloadModel,
)
from core.api.errors import EngineDiedError, ProtocolError, WaymarkError
from core.api.events import Event, Hello, ImageDescribed, Loaded, Loading, ModelInfo
from core.api.params import CacheSettings, ModelSettings, SamplingParams
from core.client.requests import Answer, Request, RequestTable
from core.client.transport import WorkerTransport, default_command

# Importing torch takes seconds on a cold disk; a worker that says nothing for this long never will.
HELLO_PATIENCE_S = 120.0
STOP_PATIENCE_S = 5.0
FIRST_PAUSE_S = 0.5
# Four deaths within a minute are no accident: wait for the user's word.
MAX_DEATHS = 4
DEATH_WINDOW_S = 60.0


class EngineState(enum.Enum):
    """Where the worker is in its life; READY says nothing of a model."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


StateCallback = Callable[[EngineState, str], None]


class EngineClient:
    """One engine for the life of the app. All methods belong to the event loop's thread."""

    def __init__(self, log_file: Path | None = None, command: Sequence[str] | None = None) -> None:
        self.state = EngineState.CLOSED
        self.model: ModelInfo | None = None
        self._log_file = log_file
        self._command = tuple(command or default_command())
        self._transport: WorkerTransport | None = None
        self._requests = RequestTable()
        self._subscribers: list[StateCallback] = []
        self._settings: ModelSettings | None = None
        self._deaths: list[float] = []
        self._loading: Request | None = None
        self._life: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def subscribe(self, callback: StateCallback) -> None:
        """Call `callback(state, words)` at each change of state; words is '' when there are
        none."""
        self._subscribers.append(callback)

    @property
    def worker_pid(self) -> int | None:
        return self._transport.pid if self._transport else None

    async def start(self) -> None:
        """Start the worker. Raises EngineDiedError when it doesn't come up."""
        self._set_state(EngineState.STARTING, "")
        try:
            await self._spawn()
        except WaymarkError as error:
            self._set_state(EngineState.FAILED, error.message)
            raise
        self._set_state(EngineState.READY, "")
        self._life = asyncio.ensure_future(self._live())

    async def restart(self) -> None:
        """Start again after FAILED, with a clean count of deaths, and load the last model."""
        if self.state is not EngineState.FAILED:
            return
        self._deaths.clear()
        await self.start()
        self._load_again()

    async def close(self) -> None:
        """End the worker and fail what is open. Idempotent."""
        self._set_state(EngineState.CLOSED, "")
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.stop(STOP_PATIENCE_S)
        self._requests.fail_all(EngineDiedError("The engine was closed.").info())

    async def load(
        self,
        settings: ModelSettings,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ModelInfo:
        """Load a model in place of the present one. Raises EngineError with the engine's reason."""

        return await self._loaded(self._start_load(settings), settings, on_progress)

    def cancel_load(self) -> None:
        """Stop the load in progress, if any: the model loaded before stays."""
        if self._loading is not None:
            self._loading.cancel()

    def _start_load(self, settings: ModelSettings) -> Request:
        self._loading = self._ask(lambda number: LoadModel(request=number, settings=settings))
        return self._loading

    async def _loaded(
        self,
        request: Request,
        settings: ModelSettings,
        on_progress: Callable[[int, int], None] | None,
    ) -> ModelInfo:
        def forward(event: Answer) -> None:
            if isinstance(event, Loading) and on_progress is not None:
                on_progress(event.done, event.total)

        loaded = await request.last(forward)
        assert isinstance(loaded, Loaded)
        self._settings, self.model = settings, loaded.model
        return loaded.model

    async def unload(self) -> None:
        await self._ask(lambda number: UnloadModel(request=number)).last()
        self._settings = self.model = None

    def generate(
        self,
        conversation: Conversation,
        sampling: SamplingParams | None = None,
        thinking: bool | None = None,
        cache: CacheSettings | None = None,
        stop_after_tokens: int | None = None,
        logits_file: str | None = None,
        *,
        chat: str = "",
        side: bool = False,
        cancel_prefill_after_tokens: int | None = None,
    ) -> Request:
        """Answer a conversation; iterate over the request for its events."""
        return self._ask(
            lambda number: Generate(
                request=number,
                conversation=conversation,
                sampling=sampling or SamplingParams(),
                thinking=thinking,
                cache=cache or CacheSettings(),
                stop_after_tokens=stop_after_tokens,
                logits_file=logits_file,
                chat=chat,
                side=side,
                cancel_prefill_after_tokens=cancel_prefill_after_tokens,
            )
        )

    def settle(
        self,
        conversation: Conversation,
        thinking: bool | None = None,
        cache: CacheSettings | None = None,
        chat: str = "",
    ) -> Request:
        """Have the reply that ends a conversation read in idle time; ends with Prepared."""
        return self._ahead(Settle, conversation, thinking, cache, chat)

    def read_ahead(
        self,
        conversation: Conversation,
        thinking: bool | None = None,
        cache: CacheSettings | None = None,
        chat: str = "",
    ) -> Request:
        """Have the draft that ends a conversation read in idle time; ends with Prepared."""
        return self._ahead(ReadAhead, conversation, thinking, cache, chat)

    async def describe_image(self, image: ImagePart, thumbnail: int = 256) -> ImageDescribed:
        """Decode a picture in the worker. Raises EngineError when it can't be used."""
        request = self._ask(
            lambda number: DescribeImage(request=number, image=image, thumbnail=thumbnail)
        )
        described = await request.last()
        assert isinstance(described, ImageDescribed)
        return described

    async def clear_cache(self) -> None:
        await self._ask(lambda number: ClearCache(request=number)).last()

    async def forget(self, chat: str | None, cache_folder: str | None = None) -> None:
        """Delete what only a chat used, in memory and on disk; None deletes everything."""
        await self._ask(
            lambda number: Forget(request=number, chat=chat, cache_folder=cache_folder)
        ).last()

    async def flush(self, seconds: float = 5.0) -> None:
        """Have what is computed written to disk, for so long at most."""
        await self._ask(lambda number: Flush(request=number, seconds=seconds)).last()

    def cancel(self, request: int) -> None:
        """Stop a request, whatever its stage; an ended one is left alone."""
        self._spawn_task(self._send(Cancel(request=0, target=request)))

    def _ask(self, command: Callable[[int], Command]) -> Request:
        request = self._requests.open(self.cancel)
        self._spawn_task(self._send(command(request.id)))
        return request

    def _ahead(
        self,
        kind: type[Settle] | type[ReadAhead],
        conversation: Conversation,
        thinking: bool | None,
        cache: CacheSettings | None,
        chat: str,
    ) -> Request:
        settings = cache or CacheSettings()
        return self._ask(
            lambda number: kind(
                request=number,
                conversation=conversation,
                chat=chat,
                thinking=thinking,
                cache=settings,
            )
        )

    async def _send(self, command: Command) -> None:
        # The lock keeps commands in the order they were asked in, Cancel behind its Generate.
        async with self._sending:
            if self._transport is None or self.state is not EngineState.READY:
                not_running = EngineDiedError("The engine is not running.")
                self._requests.fail(command.request, not_running.info())
                return
            try:
                await self._transport.send(command)
            except WaymarkError as error:
                self._requests.fail(command.request, error.info())

    async def _spawn(self) -> None:
        transport = await WorkerTransport.spawn(self._command, self._log_file)
        try:
            hello = await asyncio.wait_for(transport.receive(), HELLO_PATIENCE_S)
        except BaseException as error:
            # Cancelled too: nobody else knows of this worker yet, so nobody else would end it.
            transport.kill()
            await transport.stop(STOP_PATIENCE_S)
            if not isinstance(error, TimeoutError | ProtocolError):
                raise
            raise EngineDiedError(
                f"The engine said nothing sensible at its start: {error}."
            ) from error
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL_VERSION:
            transport.kill()
            await transport.stop(STOP_PATIENCE_S)
            raise EngineDiedError(transport.describe_end())
        self._transport = transport

    async def _live(self) -> None:
        """Route events until the worker dies, then bring up another; ends when that is hopeless."""
        while True:
            words = await self._listen()
            self._requests.fail_all(EngineDiedError(words).info())
            if not await self._come_back(words):
                return
            # The load goes first, so that nothing asked on the news finds the engine without model.
            self._load_again()
            self._set_state(EngineState.READY, "")

    async def _listen(self) -> str:
        """Route events of the present worker; returns why it ended."""
        assert self._transport is not None
        transport = self._transport
        try:
            while (event := await transport.receive()) is not None:
                self._route(event)
        except ProtocolError as error:
            transport.kill()
            await transport.stop(STOP_PATIENCE_S)
            self._transport = None
            return error.message
        await transport.stop(STOP_PATIENCE_S)
        self._transport = None
        return transport.describe_end()

    def _route(self, event: Event) -> None:
        self._requests.route(event)

    async def _come_back(self, words: str) -> bool:
        """Start another worker after a pause that grows with the deaths; False when given up."""
        self.model = None
        while True:
            now = time.monotonic()
            self._deaths = [at for at in self._deaths if now - at < DEATH_WINDOW_S] + [now]
            if len(self._deaths) >= MAX_DEATHS:
                self._set_state(EngineState.FAILED, words)
                return False
            self._set_state(EngineState.RESTARTING, words)
            await asyncio.sleep(FIRST_PAUSE_S * 2 ** (len(self._deaths) - 1))
            try:
                await self._spawn()
            except WaymarkError as error:
                words = error.message
            else:
                return True

    def _load_again(self) -> None:
        """Bring the last model back after a restart; one that kills the worker is not tried
        twice."""
        settings, self._settings = self._settings, None
        if settings is not None:
            self._spawn_task(self._reloaded(self._start_load(settings), settings))

    async def _reloaded(self, request: Request, settings: ModelSettings) -> None:
        words = ""
        try:
            await self._loaded(request, settings, None)
        except WaymarkError as error:
            words = f"The model could not be loaded again: {error.message}"
        self._set_state(self.state, words)

    def _set_state(self, state: EngineState, words: str) -> None:
        self.state = state
        for callback in list(self._subscribers):
            callback(state, words)

    def _spawn_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
