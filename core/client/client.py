"""The engine as the window sees it: ask, listen, and outlive every death of the worker.

`EngineClient` sends commands and routes events to their requests; when the worker dies (`life`
brings up another) it fails what was open with the reason and loads the last model again. It never
imports torch and knows no pipes. Longer than other files, for every command has a method here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from core.api.chat import Conversation, ImagePart
from core.api.commands import (
    MAX_RENDERED_EDGE,
    Cancel,
    ClearCache,
    Command,
    DeleteMatrices,
    DescribeImage,
    Flush,
    Forget,
    Generate,
    LoadModel,
    ReadAhead,
    RenderImage,
    Settle,
    UnloadModel,
)
from core.api.errors import EngineDiedError, WaymarkError
from core.api.events import (
    CacheBytes,
    Done,
    Event,
    Failed,
    ImageDescribed,
    ImageRendered,
    Loaded,
    Loading,
    ModelInfo,
)
from core.api.params import CacheSettings, ModelSettings, SamplingParams
from core.client.life import EngineState, WorkerLife
from core.client.requests import Answer, Request, RequestTable
from core.client.transport import default_command

__all__ = ["EngineClient", "EngineState", "StateCallback"]

# What a user waits at most when the window closes, and the part of it that is spent on writing.
FLUSH_PATIENCE_S = 5.0
FLUSH_S = 4.5

# In which a worker is there and commands are sent to it.
ANSWERING = (EngineState.READY, EngineState.SILENT)

StateCallback = Callable[[EngineState, str], None]


class EngineClient:
    """One engine for the life of the app. All methods belong to the event loop's thread."""

    def __init__(self, log_file: Path | None = None, command: Sequence[str] | None = None) -> None:
        self.state = EngineState.CLOSED
        self.model: ModelInfo | None = None
        self._requests = RequestTable()
        self._life = WorkerLife(command or default_command(), log_file, self)
        self._subscribers: list[StateCallback] = []
        self._settings: ModelSettings | None = None
        self._loading: Request | None = None
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def subscribe(self, callback: StateCallback) -> None:
        """Call `callback(state, words)` at each change of state; words is '' when there are
        none."""
        self._subscribers.append(callback)

    @property
    def worker_pid(self) -> int | None:
        return self._life.pid

    async def start(self) -> None:
        """Start the worker. Raises EngineDiedError when it doesn't come up."""
        await self._life.start()

    async def restart(self) -> None:
        """Start the engine again with the last model, whatever state it is in; what was asked of
        it fails. After FAILED with a clean count of deaths."""
        if self.state is EngineState.FAILED:
            await self.start()
            self.came_back()
        elif self.state in ANSWERING:
            self._life.restart()

    async def close(self, flush: bool = True) -> None:
        """Have what is computed written, end the worker and fail what is open. Idempotent.

        What is open is stopped first, and writing takes five seconds at most; without `flush`
        nothing is waited for.
        """
        if flush and self.state is EngineState.READY and self.model is not None:
            for number in self._requests.open_numbers:
                self.cancel(number)
            with contextlib.suppress(TimeoutError, WaymarkError):
                await asyncio.wait_for(self.flush(FLUSH_S), FLUSH_PATIENCE_S)
        await self._end(kill=False)

    async def kill(self) -> None:
        """End the worker in the middle of whatever it does, as the system would."""
        await self._end(kill=True)

    async def _end(self, kill: bool) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._life.end(kill)
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

    async def render_image(self, image: ImagePart, width: int, height: int) -> ImageRendered:
        """A picture's pixels within `width` x `height`, and within what a frame holds.

        Raises EngineError when there are none.
        """
        wide, high = min(width, MAX_RENDERED_EDGE), min(height, MAX_RENDERED_EDGE)
        request = self._ask(
            lambda number: RenderImage(request=number, image=image, width=wide, height=high)
        )
        rendered = await request.last()
        assert isinstance(rendered, ImageRendered)
        return rendered

    async def clear_cache(self) -> None:
        await self._ask(lambda number: ClearCache(request=number)).last()

    async def forget(self, chat: str | None, cache_folder: str | None = None) -> None:
        """Delete what only a chat used, in memory and on disk; None deletes everything."""
        await self._ask(
            lambda number: Forget(request=number, chat=chat, cache_folder=cache_folder)
        ).last()

    async def delete_matrices(self, folder: str) -> None:
        """Delete the quantised matrices that loads kept in this cache folder."""
        await self._ask(lambda number: DeleteMatrices(request=number, cache_folder=folder)).last()

    async def flush(self, seconds: float = 5.0) -> CacheBytes | None:
        """Have what is computed written to disk, for so long at most; the totals afterwards."""
        done = await self._ask(lambda number: Flush(request=number, seconds=seconds)).last()
        assert isinstance(done, Done)
        return done.bytes

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
            try:
                if self.state not in ANSWERING:
                    raise EngineDiedError("The engine is not running.")
                await self._life.send(command)
            except WaymarkError as error:
                self._requests.fail(command.request, error.info())

    # What the worker's life tells.

    def changed(self, state: EngineState, words: str) -> None:
        """The worker is in another state, or there is news of it."""
        self.state = state
        for callback in list(self._subscribers):
            callback(state, words)

    def received(self, event: Event) -> None:
        """The worker says something."""
        if isinstance(event, Failed) and event.no_model:
            self._settings = self.model = None
        self._requests.route(event)

    def died(self, words: str) -> None:
        """The worker is gone, and its model with it."""
        self.model = None
        self._requests.fail_all(EngineDiedError(words).info())

    def came_back(self) -> None:
        """Bring the last model back; one that kills the worker is not tried twice."""
        # The load goes first, so that nothing asked on the news finds the engine without model.
        settings, self._settings = self._settings, None
        if settings is not None:
            self._spawn_task(self._reloaded(self._start_load(settings), settings))

    async def _reloaded(self, request: Request, settings: ModelSettings) -> None:
        words = ""
        try:
            await self._loaded(request, settings, None)
        except WaymarkError as error:
            words = f"The model could not be loaded again: {error.message}"
        # Whoever answers is not silent.
        self.changed(EngineState.READY, words)

    def _spawn_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
