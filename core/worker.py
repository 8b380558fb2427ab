"""The child process: commands in on standard input, engine steps, events out.

A reader thread parses commands, sets cancel flags and ends the process when its input closes, so
the worker never outlives the window. The main thread computes, one request at a time. Pictures are
described on a thread of their own, so that a thumbnail doesn't wait for a reply. Whatever libraries
print goes to standard error: the descriptor of standard output carries frames only.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from core.api.chat import AssistantMessage
from core.api.commands import (
    COMMANDS,
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
from core.api.errors import InternalError, NotEnoughMemoryError, RequestCancelled, WaymarkError
from core.api.events import Done, Event, Failed, Finished, Hello, Queued, RequestStats
from core.client.codec import decode, encode, read_frame
from core.engine.cancel import CancelFlag

if TYPE_CHECKING:
    from core.engine.engine import Engine

# How torch words it, in a RuntimeError: on a GPU, on Windows, on Linux.
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")

Work = LoadModel | UnloadModel | Generate | Settle | ReadAhead | ClearCache | Forget | Flush


class Outbox:
    """Events to the window, whole frames from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        frame = encode(event)
        with self._lock:
            self._stream.write(frame)
            self._stream.flush()


@dataclass(eq=False)
class Entry:
    """One piece of work with the cancel flag that belongs to it alone."""

    work: Work
    flag: CancelFlag = field(default_factory=CancelFlag)
    interrupted: bool = False

    @property
    def idle(self) -> bool:
        """Whether it is done only when nobody waits for anything."""
        return isinstance(self.work, Settle | ReadAhead)


class Inbox:
    """Work waiting for the main thread, in order; idle work waits behind all other.

    Work that arrives interrupts idle work, which goes on from what it finished when it is quiet
    again.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._waiting: deque[Entry] = deque()
        self._idle: deque[Entry] = deque()
        self._running: Entry | None = None
        self._changed = threading.Condition()

    def put(self, work: Work) -> None:
        entry = Entry(work)
        with self._changed:
            if entry.idle:
                self._idle.append(entry)
            else:
                self._waiting.append(entry)
                self._interrupt_idle()
                self._tell_last()
            self._changed.notify()

    def cancel(self, target: int) -> None:
        """Stop one request: a running one through its flag, a waiting one at once."""
        with self._changed:
            if self._running is not None and self._running.work.request == target:
                self._running.interrupted = False
                self._running.flag.set()
                return
            for queue in (self._waiting, self._idle):
                for entry in queue:
                    if entry.work.request == target:
                        queue.remove(entry)
                        self._emit(cancelled(entry.work))
                        self._tell_places()
                        return

    def take(self) -> Entry:
        """Wait for the next piece of work and mark it as running."""
        with self._changed:
            while not (self._waiting or self._idle):
                self._changed.wait()
            self._running = (self._waiting or self._idle).popleft()
            self._tell_places()
            return self._running

    def done(self, last: Event) -> bool:
        """The running work has ended with `last`; False when it was interrupted and waits again."""
        with self._changed:
            entry, self._running = self._running, None
            assert entry is not None
            again = entry.interrupted and _was_cancelled(last)
            if again:
                self._idle.appendleft(Entry(entry.work))
            return not again

    def _interrupt_idle(self) -> None:
        if self._running is not None and self._running.idle and not self._running.flag.is_set:
            self._running.interrupted = True
            self._running.flag.set()

    def _tell_last(self) -> None:
        busy = self._running is not None and not self._running.idle
        ahead = len(self._waiting) - 1 + busy
        work = self._waiting[-1].work
        if ahead and isinstance(work, Generate):
            self._emit(Queued(request=work.request, ahead=ahead))

    def _tell_places(self) -> None:
        # Idle work makes way at once: nobody waits behind it.
        first = int(self._running is not None and not self._running.idle)
        for ahead, entry in enumerate(self._waiting, start=first):
            if ahead and isinstance(entry.work, Generate):
                self._emit(Queued(request=entry.work.request, ahead=ahead))


def cancelled(work: Work) -> Event:
    """The last event of a request that was stopped before it began."""
    if isinstance(work, Generate):
        return Finished(
            request=work.request,
            reason="cancelled",
            reply=AssistantMessage(text=""),
            prompt_ids=(),
            reply_ids=(),
            stats=RequestStats(),
        )
    error = RequestCancelled("The request was stopped before it began.")
    return Failed(request=work.request, error=error.info())


class Worker:
    """Ties the pipe to the engine."""

    def __init__(self, commands: BinaryIO, outbox: Outbox, engine: Engine) -> None:
        self._commands = commands
        self._outbox = outbox
        self._engine = engine
        self._inbox = Inbox(outbox.emit)
        self._pictures = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pictures")

    def run(self) -> None:
        """Work until the window goes away."""
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            entry = self._inbox.take()
            last = self._guarded(entry.work.request, functools.partial(self._do, entry))
            if self._inbox.done(last):
                self._outbox.emit(last)

    def _read(self) -> None:
        """The reader thread: ends the process at the end of its input, or when it makes no
        sense."""
        code = 0
        try:
            while (body := read_frame(self._commands)) is not None:
                self._accept(decode(COMMANDS, body))
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)

    def _accept(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._inbox.cancel(command.target)
        elif isinstance(command, DescribeImage):
            self._pictures.submit(self._describe, command)
        else:
            self._inbox.put(command)

    def _describe(self, command: DescribeImage) -> None:
        describe = self._engine.describe
        self._outbox.emit(self._guarded(command.request, lambda: describe(command)))

    def _do(self, entry: Entry) -> Event:
        work = entry.work
        match work:
            case LoadModel():
                return self._engine.load(work, entry.flag, self._outbox.emit)
            case Generate():
                return self._engine.generate(work, entry.flag, self._outbox.emit)
            case Settle() | ReadAhead():
                return self._engine.prepare(work, entry.flag)
            case UnloadModel():
                self._engine.unload()
            case ClearCache():
                self._engine.clear_cache()
            case Forget():
                self._engine.forget(work)
            case Flush():
                self._engine.flush(work, entry.flag)
        return Done(request=work.request)

    def _guarded(self, request: int, action: Callable[[], Event]) -> Event:
        """The action's event, or the error it ended in: nothing may end the process."""
        try:
            return action()
        except WaymarkError as error:
            return Failed(request=request, error=error.info())
        except MemoryError:
            return Failed(request=request, error=_out_of_memory("").info())
        except Exception as error:
            traceback.print_exc()
            if any(words in str(error) for words in OUT_OF_MEMORY):
                return Failed(request=request, error=_out_of_memory(str(error)).info())
            words = f"{type(error).__name__}: {error}"[:500]
            return Failed(request=request, error=InternalError(words).info())


def _was_cancelled(event: Event) -> bool:
    return isinstance(event, Failed) and event.error.name == RequestCancelled.__name__


def _out_of_memory(words: str) -> NotEnoughMemoryError:
    advice = "Close other programs, choose a shorter context or fewer checkpoints."
    return NotEnoughMemoryError(f"The system had no memory left for this request. {advice} {words}")


def _frames() -> tuple[BinaryIO, BinaryIO]:
    """The pipes, taken before any library can print into them."""
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), events


def main() -> None:
    """Run as the child of a window; there is nothing to see when started by hand."""
    commands, events = _frames()
    faulthandler.enable()
    # Ctrl-C in a terminal reaches the whole group; the window decides when the worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outbox = Outbox(events)
    outbox.emit(Hello(protocol=PROTOCOL_VERSION, pid=os.getpid()))
    # Torch takes seconds to import; the window needn't wait for it to know that the worker lives.
    from core.engine.engine import Engine
    from core.engine.threads import fix_threads

    fix_threads()
    Worker(commands, outbox, Engine()).run()


if __name__ == "__main__":
    main()
