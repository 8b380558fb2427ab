"""The child process at work: commands in on standard input, engine steps, events out.

A reader thread parses commands, sets cancel flags and ends the process when its input closes; on
Linux the system ends it with the window whatever it is doing. A heartbeat tells the window that it
lives. The main thread computes, one request at a time, and writes to disk when it has been quiet
for a while. Pictures are described and tokens counted on a thread of their own, so that neither
waits for a reply. Whatever libraries print goes to standard error, and so does a
line of numbers for each request: the descriptor of standard output carries frames only.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

from core import pulse
from core.api.commands import (
    COMMANDS,
    AnyCommand,
    Cancel,
    ClearCache,
    Command,
    CountTokens,
    DeleteMatrices,
    DescribeImage,
    Flush,
    Forget,
    Generate,
    LoadModel,
    OfPicture,
    OfPrompt,
    Ping,
    ReadAhead,
    RenderImage,
    Settle,
    UnloadModel,
)
from core.api.errors import InternalError, NotEnoughMemoryError, ProtocolError, WaymarkError
from core.api.events import Answer, Done, Event, Failed, Last
from core.client.codec import decode, encode, read_frame
from core.client.traces import place_of, print_trace
from core.engine.cancel import CancelFlag
from core.engine.quiet import QuietTime
from core.engine.request_log import log_line
from core.worker.heartbeat import Heartbeat
from core.worker.inbox import Entry, Inbox, Work

if TYPE_CHECKING:
    from core.engine.engine import Engine

# How torch words it, in a RuntimeError: on a GPU, on Windows, on Linux.
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")

# Carries out a command of one class; None when there is nothing to tell.
Handler = Callable[[Any, CancelFlag], Answer | None]

# Kernels are compiled and tested at load, and disks and drivers may be slow.
SLOW_STEP_S = 180.0
# On a GPU kernels are compiled when they are first needed.
COMPILED_STEP_S = 60.0


class Outbox:
    """Events to the window, whole frames from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Send an event. Of a last one that is too large to be sent its error is sent instead, for
        somebody waits for it; of any other ProtocolError is raised, which ends its request."""
        try:
            frame = encode(event)
        except ProtocolError as error:
            if not isinstance(event, Last):
                raise
            frame = encode(Failed(request=event.request, error=error.info()))
        with self._lock:
            self._stream.write(frame)
            self._stream.flush()


class Worker:
    """Ties the pipe to the engine."""

    def __init__(
        self, commands: BinaryIO, outbox: Outbox, engine: Engine, quiet: QuietTime
    ) -> None:
        self._commands = commands
        self._outbox = outbox
        self._engine = engine
        self._handlers = handlers(engine, outbox.emit)
        self._inbox = Inbox(outbox.emit)
        self._quiet = quiet
        self._heartbeat = Heartbeat(outbox.emit, lambda: self._inbox.busy)
        self._beside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="beside")

    def run(self) -> None:
        """Work until the window goes away."""
        self._heartbeat.start()
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            entry = self._inbox.take(self._quiet.patience_s)
            if entry is None:
                with pulse.long_step(SLOW_STEP_S):
                    self._quiet.step()
            else:
                self._answer(entry)
                self._quiet.request_ended()

    def _answer(self, entry: Entry) -> None:
        with pulse.long_step(_longest_step(entry.work, self._engine)):
            last = self._last_event(entry.work, entry.flag)
        if isinstance(entry.work, LoadModel) and isinstance(last, Failed):
            last = last.model_copy(update={"no_model": self._engine.loaded is None})
        if self._inbox.done(last):
            print(log_line(entry.work, last), file=sys.stderr, flush=True)
            self._outbox.emit(last)

    def _read(self) -> None:
        """The reader thread: ends the process at the end of its input, or when it makes no
        sense."""
        code = 0
        try:
            while (body := read_frame(self._commands)) is not None:
                self._accept(decode(COMMANDS, body))
        except BaseException as error:
            print_trace(error)
            code = 1
        sys.stderr.flush()
        os._exit(code)

    def _accept(self, command: AnyCommand) -> None:
        if isinstance(command, Cancel):
            self._inbox.cancel(command.target)
        elif isinstance(command, Ping):
            self._heartbeat.beat()
        elif isinstance(command, OfPicture | CountTokens):
            self._beside.submit(lambda: self._outbox.emit(self._last_event(command, CancelFlag())))
        else:
            self._inbox.put(command)

    def _last_event(self, work: Work, flag: CancelFlag) -> Answer:
        """What a command ends with, an error as well: nothing may end the process."""
        request = work.request
        try:
            return self._handlers[type(work)](work, flag) or Done(request=request)
        except WaymarkError as error:
            return Failed(request=request, error=error.info())
        except MemoryError:
            return Failed(request=request, error=_out_of_memory("").info())
        except Exception as error:
            print_trace(error)
            if any(words in str(error) for words in OUT_OF_MEMORY):
                return Failed(request=request, error=_out_of_memory(str(error)).info())
            # Its own words may quote what people wrote.
            return Failed(request=request, error=InternalError(place_of(error)).info())


def handlers(engine: Engine, emit: Callable[[Event], None]) -> dict[type[Command], Handler]:
    """What the engine does for each command."""
    return {
        LoadModel: lambda command, flag: engine.load(command, flag, emit),
        UnloadModel: lambda command, flag: engine.unload(),
        Generate: lambda command, flag: engine.generate(command, flag, emit),
        Settle: engine.prepare,
        ReadAhead: engine.prepare,
        DescribeImage: lambda command, flag: engine.describe(command),
        RenderImage: lambda command, flag: engine.render_image(command),
        CountTokens: lambda command, flag: engine.count_tokens(command),
        ClearCache: lambda command, flag: engine.clear_cache(),
        Forget: lambda command, flag: engine.forget(command),
        DeleteMatrices: lambda command, flag: engine.delete_matrices(command),
        Flush: engine.flush,
    }


def _longest_step(work: Work, engine: Engine) -> float:
    """Seconds that a step of this work may take."""
    if not isinstance(work, OfPrompt):
        return SLOW_STEP_S
    on_gpu = engine.loaded is not None and engine.loaded.model.device.type == "cuda"
    return COMPILED_STEP_S if on_gpu else pulse.STEP_S


def _out_of_memory(words: str) -> NotEnoughMemoryError:
    advice = "Close other programs, choose a shorter context or fewer checkpoints."
    return NotEnoughMemoryError(f"The system had no memory left for this request. {advice} {words}")
