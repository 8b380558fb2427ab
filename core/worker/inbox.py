"""The queue in front of the engine. Any thread adds or cancels work; the main thread takes it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from core.api.commands import Answered, Forget, Generate, IdleWork, Predict
from core.api.errors import RequestCancelled
from core.api.events import Event, Failed, Finished, Last, Queued
from core.engine.cancel import CancelFlag

Work = Answered[Last]


@dataclass(eq=False)
class Entry:
    work: Work
    flag: CancelFlag = field(default_factory=CancelFlag)
    interrupted: bool = False

    @property
    def idle(self) -> bool:
        return isinstance(self.work, IdleWork) or bool(getattr(self.work, "idle", False))

    @property
    def guest(self) -> bool:
        return bool(getattr(self.work, "guest", False))

    def idle_for(self, chat: str | None) -> bool:
        return self.idle and (chat is None or getattr(self.work, "chat", "") == chat)


class Inbox:
    """The window's requests in order, then guests', then predictions and idle work, which requests
    interrupt and which then resumes. Forgetting a chat stops its idle work for good."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._waiting: deque[Entry] = deque()
        self._idle: deque[Entry] = deque()
        self._running: Entry | None = None
        self._changed = threading.Condition()

    def put(self, work: Work) -> None:
        entry = Entry(work)
        with self._changed:
            if isinstance(work, Predict):
                self._idle.appendleft(entry)
            elif entry.idle:
                _insert(self._idle, entry)
            else:
                place = _insert(self._waiting, entry)
                self._interrupt_idle()
                self._tell_places(place)
            if isinstance(work, Forget) and work.chat != "":
                self._stop_idle(work.chat)
            self._changed.notify()

    def cancel(self, target: int) -> None:
        """A running request stops through its flag, a waiting one at once."""
        with self._changed:
            if self._running is not None and self._running.work.request == target:
                self._stop_running(self._running)
                return
            for queue in (self._waiting, self._idle):
                for entry in queue:
                    if entry.work.request == target:
                        queue.remove(entry)
                        self._emit(cancelled(entry.work))
                        self._tell_places()
                        return

    @property
    def busy(self) -> bool:
        return self._running is not None or bool(self._waiting)

    def take(self, wait_s: float | None = None) -> Entry | None:
        """Mark work as running; None if there is none within `wait_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self._idle, wait_s):
                return None
            self._running = (self._waiting or self._idle).popleft()
            self._tell_places()
            return self._running

    def done(self, last: Event) -> bool:
        """False if the work was interrupted and is queued again."""
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

    def _stop_idle(self, chat: str | None) -> None:
        if self._running is not None and self._running.idle_for(chat):
            self._stop_running(self._running)
        for entry in [entry for entry in self._idle if entry.idle_for(chat)]:
            self._idle.remove(entry)
            self._emit(cancelled(entry.work))

    def _stop_running(self, entry: Entry) -> None:
        entry.interrupted = False
        entry.flag.set()

    def _tell_places(self, first: int = 0) -> None:
        # Idle work makes way at once and delays no request.
        running = int(self._running is not None and not self._running.idle)
        for place, entry in enumerate(islice(self._waiting, first, None), start=first):
            if (ahead := place + running) and isinstance(entry.work, Generate):
                self._emit(Queued(request=entry.work.request, ahead=ahead))


def _insert(queue: deque[Entry], entry: Entry) -> int:
    """The window's work comes before guests'. Returns the place."""
    place = len(queue) - (0 if entry.guest else sum(each.guest for each in queue))
    queue.insert(place, entry)
    return place


def cancelled(work: Work) -> Event:
    if isinstance(work, Generate):
        return Finished.unbegun(work.request)
    error = RequestCancelled("The request was stopped before it began.")
    return Failed(request=work.request, error=error.info())


def _was_cancelled(event: Event) -> bool:
    if isinstance(event, Finished):
        return event.reason == "cancelled"
    return isinstance(event, Failed) and event.error.name == RequestCancelled.__name__
