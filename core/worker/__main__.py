"""`python -m core.worker`, the engine's process: one thread parses commands, the main one computes,
a third describes pictures and counts tokens."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from core import watchdog
from core.api.commands import (
    COMMANDS,
    PROTOCOL_VERSION,
    AnyCommand,
    Cancel,
    Command,
    CountTokens,
    EditReply,
    LoadModel,
    OfPicture,
    OfPrompt,
    Ping,
)
from core.api.errors import InternalError, NotEnoughMemoryError, ProtocolError, WaymarkError
from core.api.events import Answer, Beat, Done, Event, Failed, Finished, Hello, Last, Prepared
from core.client.codec import decode, encode, read_frame
from core.client.programs import become_child
from core.client.traces import place_of, print_trace
from core.engine.cancel import CancelFlag
from core.worker.inbox import Entry, Inbox, Work

if TYPE_CHECKING:
    from core.engine.engine import Engine

# Words of torch's RuntimeError on a GPU, on Windows, on Linux.
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


# Kernels are compiled and tested at load; disks and drivers may be slow.
SLOW_STEP_S = 180.0
# On a GPU, kernels are compiled when they are first needed.
COMPILED_STEP_S = 60.0
# Long enough not to compete with the next message of a quick exchange.
IDLE_S = 2.0

# Keys of a line of the log.
FROM_STATS = (
    "prompt_tokens", "reused_tokens", "evaluated_tokens", "reply_tokens", "images_in_prompt",
    "images_encoded", "restored_from", "restored_at", "miss", "ttft_s", "prefill_s",
    "decode_tokens_per_s", "bytes", "checkpoints_held", "draft",
)  # fmt: skip
KEYS = (
    "at", "request", "op", "chat", "side", "finish_reason", *FROM_STATS, "settled_tokens",
    "read_ahead_tokens", "error",
)  # fmt: skip

_SALT = secrets.token_bytes(16)


class Outbox:
    """Usable from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Send an event. If it is too large, a request's last event becomes a Failed; others raise
        ProtocolError."""
        try:
            frame = encode(event)
        except ProtocolError as error:
            if not isinstance(event, Last):
                raise
            frame = encode(Failed(request=event.request, error=error.info()))
        with self._lock:
            self._stream.write(frame)
            self._stream.flush()


class IdleWriter:
    """Writes contexts to disk when idle, a segment at a time. `wait_s` is the wait before the next
    `step`, None for ever. `checks` asserts invariants at the end."""

    def __init__(self, engine: Engine, checks: bool = False, idle_s: float = IDLE_S) -> None:
        self._engine = engine
        self._checks = checks
        self._idle_s = idle_s
        self.wait_s: float | None = None

    def request_ended(self) -> None:
        self.wait_s = self._idle_s

    def step(self) -> None:
        self.wait_s = None
        try:
            if self._engine.write_some(CancelFlag()):
                self.wait_s = 0.0
            elif self._checks:
                self._engine.check_integrity()
        except Exception as error:
            print_trace(error)


class Worker:
    def __init__(
        self, commands: BinaryIO, outbox: Outbox, engine: Engine, checks: bool = False
    ) -> None:
        self._commands = commands
        self._outbox = outbox
        self._engine = engine
        self._handlers = engine.handlers(outbox.emit)
        self._inbox = Inbox(outbox.emit)
        self._idle = IdleWriter(engine, checks)
        self._side_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="side")

    def run(self) -> None:
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            entry = self._inbox.take(self._idle.wait_s)
            if entry is None:
                with watchdog.step_limit(SLOW_STEP_S):
                    self._idle.step()
            else:
                self._answer(entry)
                self._idle.request_ended()

    def _answer(self, entry: Entry) -> None:
        with watchdog.step_limit(_step_limit_s(entry.work, self._engine)):
            last = self._last_event(entry.work, entry.flag)
        if isinstance(entry.work, LoadModel) and isinstance(last, Failed):
            last = last.model_copy(update={"no_model": self._engine.loaded is None})
        if self._inbox.done(last):
            print(log_line(entry.work, last), file=sys.stderr, flush=True)
            self._outbox.emit(last)

    def _answer_aside(self, work: Work) -> None:
        self._outbox.emit(self._last_event(work, CancelFlag()))

    def _read(self) -> None:
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
            progress, limit_s = watchdog.progress(), watchdog.step_limit_s()
            busy = self._inbox.busy
            self._outbox.emit(Beat(busy=busy, progress=progress, step_limit_s=limit_s))
        elif isinstance(command, OfPicture | CountTokens | EditReply):
            self._side_thread.submit(self._answer_aside, command)
        else:
            self._inbox.put(command)

    def _last_event(self, work: Work, flag: CancelFlag) -> Answer:
        """Every error becomes an event: none may end the process."""
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
            # The error's own message may quote what people wrote.
            return Failed(request=request, error=InternalError(place_of(error)).info())


def log_line(command: Command, last: Event, clock: Callable[[], float] = time.time) -> str:
    """A line of JSON: numbers and names, no text, ids or paths; `chat` is an alias."""
    line: dict[str, object] = dict.fromkeys(KEYS)
    line |= {
        "at": round(clock(), 3),
        "request": command.request,
        "op": command.type,
        "chat": _alias(getattr(command, "chat", None)),
        "side": getattr(command, "side", None),
    }
    return json.dumps(line | _outcome(command, last))


def _alias(chat: str | None) -> str | None:
    """Salted: the log may outlive a deleted chat."""
    if chat is None:
        return None
    return hashlib.blake2b(chat.encode(), key=_SALT, digest_size=4).hexdigest()


def _outcome(command: Command, last: Event) -> dict[str, object]:
    match last:
        case Finished():
            numbers = last.stats.model_dump(mode="json", include=set(FROM_STATS))
            return {"finish_reason": last.reason, **numbers}
        case Prepared():
            op = "settled_tokens" if command.type == "prefill_reply" else "read_ahead_tokens"
            totals = last.bytes.model_dump()
            return {op: last.tokens, "images_encoded": last.encoded, "bytes": totals}
        case Done() if last.bytes is not None:
            return {"bytes": last.bytes.model_dump()}
        case Failed():
            return {"error": last.error.name}
        case _:
            return {}


def _step_limit_s(work: Work, engine: Engine) -> float:
    if not isinstance(work, OfPrompt):
        return SLOW_STEP_S
    on_gpu = engine.loaded is not None and engine.loaded.model.device.type == "cuda"
    return COMPILED_STEP_S if on_gpu else watchdog.STEP_LIMIT_S


def _out_of_memory(words: str) -> NotEnoughMemoryError:
    advice = "Close other programs, choose a shorter context or fewer checkpoints."
    return NotEnoughMemoryError(f"The system had no memory left for this request. {advice} {words}")


def main() -> None:
    commands, events = become_child()
    faulthandler.enable()
    outbox = Outbox(events)
    outbox.emit(Hello(protocol=PROTOCOL_VERSION, pid=os.getpid()))
    # Torch takes seconds to import; the window is told before that the worker lives.
    from core.engine import debug
    from core.engine.engine import Engine
    from core.engine.loaded import fix_threads

    fix_threads()
    Worker(commands, outbox, Engine(), debug.integrity()).run()


if __name__ == "__main__":
    main()
