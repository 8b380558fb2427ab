"""The worker's life: bring it up, listen to it, and when it dies bring up another with growing
pauses.

Knows processes and states, and nothing of commands beyond sending them. Who asks, and what a death
means for what was asked, is the owner's business (`client`).
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from core.api.commands import PROTOCOL_VERSION, Command, Ping
from core.api.errors import EngineDiedError, ProtocolError, WaymarkError
from core.api.events import Beat, Event, Hello
from core.client.transport import WorkerTransport
from core.watchdog import TICK_S, Health, Watchdog

# Importing torch takes seconds on a cold disk; a worker that says nothing for this long never will.
HELLO_PATIENCE_S = 120.0
STOP_PATIENCE_S = 5.0
FIRST_PAUSE_S = 0.5
REPLACED_WORDS = "It did not answer any more, so it was ended and started again."
RESTARTED_WORDS = "The engine was started again, as you asked."
# Four deaths within a minute are no accident: wait for the user's word.
MAX_DEATHS = 4
DEATH_WINDOW_S = 60.0


class EngineState(enum.Enum):
    """Where the worker is in its life; READY says nothing of a model. A SILENT one has not
    answered for a while: it takes commands as before, and is replaced if it stays so."""

    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


class Owner(Protocol):
    """Who is told what happens to the worker. `words` is '' when there are none."""

    def changed(self, state: EngineState, words: str) -> None: ...
    def received(self, event: Event) -> None: ...
    def died(self, words: str) -> None: ...
    def came_back(self) -> None: ...


class WorkerLife:
    """One worker after another. All methods belong to the event loop's thread."""

    def __init__(self, command: Sequence[str], log_file: Path | None, owner: Owner) -> None:
        self._command = tuple(command)
        self._log_file = log_file
        self._owner = owner
        self._transport: WorkerTransport | None = None
        self._deaths: list[float] = []
        self._live: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._watchdog = Watchdog()
        # Why we ended the present worker ourselves, in words.
        self._reason = ""
        self._ended = False

    @property
    def pid(self) -> int | None:
        return self._transport.pid if self._transport else None

    async def start(self) -> None:
        """Start a worker, with a clean count of deaths. Raises EngineDiedError when it doesn't
        come up."""
        self._deaths.clear()
        self._ended = False
        self._owner.changed(EngineState.STARTING, "")
        try:
            await self._spawn()
        except WaymarkError as error:
            self._owner.changed(
                EngineState.CLOSED if self._ended else EngineState.FAILED, error.message
            )
            raise
        self._owner.changed(EngineState.READY, "")
        self._live = asyncio.ensure_future(self._go_on())

    async def end(self, kill: bool = False) -> None:
        """End the worker for good; `kill` as the system would, at once. Idempotent."""
        self._ended = True
        if kill and self._transport is not None:
            self._transport.kill()
        self._owner.changed(EngineState.CLOSED, "")
        live, self._live = self._live, None
        if live is not None:
            live.cancel()
        self._stop_watching()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.stop(STOP_PATIENCE_S)

    def replace(self, words: str) -> None:
        """Kill the present worker, whatever it does; another one comes up as after any death."""
        if self._transport is not None:
            self._reason = words
            self._transport.kill()
            # One that hangs in a driver or a disk can't die, and its pipes stay open.
            asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._transport.abandon)

    def restart(self) -> None:
        """Replace the worker because the user wants it so, which is no death to be counted."""
        self._deaths.clear()
        self.replace(RESTARTED_WORDS)

    async def send(self, command: Command) -> None:
        """Write one command. Raises EngineDiedError when nobody reads it."""
        if self._transport is None:
            raise EngineDiedError("The engine is not running.")
        await self._transport.send(command)

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
        speaks = isinstance(hello, Hello) and hello.protocol == PROTOCOL_VERSION
        if not speaks or self._ended:
            transport.kill()
            await transport.stop(STOP_PATIENCE_S)
            words = "The engine was closed." if self._ended else transport.describe_end()
            raise EngineDiedError(words)
        self._transport = transport

    async def _go_on(self) -> None:
        """Route events until the worker dies, then bring up another; ends when that is hopeless."""
        while True:
            words = await self._listen()
            self._owner.died(words)
            if not await self._come_back(words):
                return
            self._owner.came_back()
            self._owner.changed(EngineState.READY, "")

    async def _listen(self) -> str:
        """Route events of the present worker; returns why it ended."""
        assert self._transport is not None
        transport = self._transport
        self._watchdog, self._reason = Watchdog(), ""
        self._watch = asyncio.ensure_future(self._keep_watch())
        try:
            while (event := await transport.receive()) is not None:
                self._hear(event)
        except ProtocolError as error:
            transport.kill()
            self._reason = error.message
        finally:
            self._stop_watching()
        await transport.stop(STOP_PATIENCE_S)
        self._transport = None
        return self._reason or transport.describe_end()

    def _hear(self, event: Event) -> None:
        if isinstance(event, Beat):
            self._watchdog.heard(event)
        else:
            self._watchdog.heard()
            self._owner.received(event)

    async def _keep_watch(self) -> None:
        """Ask a worker that has fallen silent, and replace it if it stays so."""
        before = Health.ALIVE
        while True:
            await asyncio.sleep(TICK_S)
            health = self._watchdog.tick()
            if health is Health.LOST:
                self.replace(REPLACED_WORDS)
                return
            if health is Health.SILENT and before is Health.ALIVE:
                self._owner.changed(EngineState.SILENT, "")
                self._ask()
            elif health is Health.ALIVE and before is Health.SILENT:
                self._owner.changed(EngineState.READY, "")
            before = health

    def _ask(self) -> None:
        """Have it say anything. Not waited for: the pipe to a stopped process may be full."""
        if self._transport is not None:
            ping = asyncio.ensure_future(self._transport.send(Ping()))
            ping.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    async def _come_back(self, words: str) -> bool:
        """Start another worker after a pause that grows with the deaths; False when given up."""
        while True:
            now = time.monotonic()
            self._deaths = [at for at in self._deaths if now - at < DEATH_WINDOW_S] + [now]
            if len(self._deaths) >= MAX_DEATHS:
                self._owner.changed(EngineState.FAILED, words)
                return False
            self._owner.changed(EngineState.RESTARTING, words)
            await asyncio.sleep(FIRST_PAUSE_S * 2 ** (len(self._deaths) - 1))
            try:
                await self._spawn()
            except WaymarkError as error:
                words = error.message
            else:
                return True
