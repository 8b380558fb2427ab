"""Starts the worker, listens to it, and replaces it when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from core.api.commands import PROTOCOL_VERSION, Command, Ping
from core.api.errors import EngineDiedError, ProtocolError, WaymarkError
from core.api.events import EVENTS, Beat, Event, Hello
from core.client.transport import Transport, worker_environment
from core.watchdog import TICK_S, Health, Watchdog

# Importing torch takes seconds on a cold disk; a worker silent for this long will stay silent.
HELLO_PATIENCE_S = 120.0
STOP_PATIENCE_S = 5.0
FIRST_PAUSE_S = 0.5
REPLACED_WORDS = "It did not answer any more, so it was ended and started again."
RESTARTED_WORDS = "The engine was started again, as you asked."
# Four deaths within a minute are no accident: only the user starts another worker.
MAX_DEATHS = 4
DEATH_WINDOW_S = 60.0


class EngineState(enum.Enum):
    """A SILENT worker still takes commands, and is replaced if it stays silent."""

    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


class WorkerLife:
    """Calls `changed` with each new state and a reason or '', `died` with a death's reason.
    `awaited()`: the worker owes an answer."""

    def __init__(
        self,
        command: Sequence[str],
        log_file: Path | None,
        *,
        changed: Callable[[EngineState, str], None],
        received: Callable[[Event], None],
        died: Callable[[str], None],
        came_back: Callable[[], None],
        awaited: Callable[[], bool],
    ) -> None:
        self._command = tuple(command)
        self._log_file = log_file
        self._changed, self._received = changed, received
        self._died, self._came_back, self._awaited = died, came_back, awaited
        self._transport: Transport[Event] | None = None
        self._deaths: list[float] = []
        self._live: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._watchdog = Watchdog()
        # Why we ended the current worker ourselves.
        self._reason = ""
        self._ended = False

    @property
    def pid(self) -> int | None:
        return self._transport.pid if self._transport else None

    async def start(self) -> None:
        """Forget deaths and start a worker. Raises EngineDiedError."""
        self._deaths.clear()
        self._ended = False
        self._changed(EngineState.STARTING, "")
        try:
            await self._spawn()
        except WaymarkError as error:
            self._changed(EngineState.CLOSED if self._ended else EngineState.FAILED, error.message)
            raise
        self._changed(EngineState.READY, "")
        self._live = asyncio.ensure_future(self._keep_alive())

    async def end(self, kill: bool = False) -> None:
        self._ended = True
        if kill and self._transport is not None:
            self._transport.kill()
        self._changed(EngineState.CLOSED, "")
        live, self._live = self._live, None
        if live is not None:
            live.cancel()
        self._stop_watching()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.stop(STOP_PATIENCE_S)

    def replace(self, words: str) -> None:
        if self._transport is not None:
            self._reason = words
            self._transport.kill()
            # A process that hangs in a driver or a disk can't die, and its pipes stay open.
            asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._transport.close_pipes)

    def restart(self) -> None:
        self._deaths.clear()
        self.replace(RESTARTED_WORDS)

    async def send(self, command: Command) -> None:
        if self._transport is None:
            raise EngineDiedError("The engine is not running.")
        # If it dies meanwhile, `died` gets the reason.
        with contextlib.suppress(EngineDiedError):
            await self._transport.send(command)

    async def _spawn(self) -> None:
        failed = "The engine could not be started: {}."
        transport = await Transport.spawn(
            self._command, self._log_file, EVENTS, worker_environment(), failed
        )
        try:
            hello = await asyncio.wait_for(transport.receive(), HELLO_PATIENCE_S)
            speaks = isinstance(hello, Hello) and hello.protocol == PROTOCOL_VERSION
            if speaks and not self._ended:
                self._transport = transport
                return
        except (TimeoutError, ProtocolError) as error:
            raise EngineDiedError(f"The engine's first message can't be read: {error}.") from error
        finally:
            # Also when cancelled: nothing else knows of this worker yet, and would end it.
            if self._transport is not transport:
                transport.kill()
                await transport.stop(STOP_PATIENCE_S)
        raise EngineDiedError("The engine was closed." if self._ended else transport.describe_end())

    async def _keep_alive(self) -> None:
        while True:
            words = await self._listen()
            self._died(words)
            if not await self._spawn_again(words):
                return
            self._came_back()
            self._changed(EngineState.READY, "")

    async def _listen(self) -> str:
        assert self._transport is not None
        transport = self._transport
        self._watchdog, self._reason = Watchdog(), ""
        self._watch = asyncio.ensure_future(self._keep_watch())
        try:
            while (event := await transport.receive()) is not None:
                if isinstance(event, Beat):
                    self._watchdog.heard(event)
                else:
                    self._watchdog.heard()
                    self._received(event)
        except ProtocolError as error:
            transport.kill()
            self._reason = error.message
        finally:
            self._stop_watching()
        await transport.stop(STOP_PATIENCE_S)
        self._transport = None
        return self._reason or transport.describe_end()

    async def _keep_watch(self) -> None:
        before = Health.ALIVE
        while True:
            ticks = self._watchdog.ticks_to_wait(self._awaited())
            self._ping()
            await asyncio.sleep(ticks * TICK_S)
            health = self._watchdog.tick(ticks)
            if health is Health.LOST:
                self.replace(REPLACED_WORDS)
                return
            if health is not before:
                alive = health is Health.ALIVE
                self._changed(EngineState.READY if alive else EngineState.SILENT, "")
            before = health

    def _ping(self) -> None:
        """Not waited for: the pipe to a stopped process may be full."""
        if self._transport is not None:
            ping = asyncio.ensure_future(self._transport.send(Ping()))
            ping.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    async def _spawn_again(self, words: str) -> bool:
        while True:
            now = time.monotonic()
            self._deaths = [at for at in self._deaths if now - at < DEATH_WINDOW_S] + [now]
            if len(self._deaths) >= MAX_DEATHS:
                self._changed(EngineState.FAILED, words)
                return False
            self._changed(EngineState.RESTARTING, words)
            await asyncio.sleep(FIRST_PAUSE_S * 2 ** (len(self._deaths) - 1))
            try:
                await self._spawn()
            except WaymarkError as error:
                words = error.message
            else:
                return True
