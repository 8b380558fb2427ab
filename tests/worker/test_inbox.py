"""The queue in front of the engine, without process or engine: order, cancels, and who waits."""

from __future__ import annotations

import threading

from core.api.chat import Conversation
from core.api.commands import ClearCache, Generate, LoadModel
from core.api.events import Done, Event, Failed, Finished, Queued
from core.api.params import ModelSettings
from core.worker.inbox import Entry, Inbox

ENDED = Done(request=0)


def ask(number: int) -> Generate:
    return Generate(request=number, conversation=Conversation(messages=()))


class Box:
    """An inbox that remembers what it emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.inbox = Inbox(self.events.append)

    def take(self) -> Entry:
        entry = self.inbox.take()
        assert entry is not None
        return entry

    def queued(self) -> list[tuple[int, int]]:
        found = [(e.request, e.ahead) for e in self.events if isinstance(e, Queued)]
        self.events.clear()
        return found


def test_work_is_done_in_order() -> None:
    box = Box()
    for number in range(3):
        box.inbox.put(ask(number))
    assert [box.take().work.request for _ in range(3)] == [0, 1, 2]


def test_who_waits_is_told_how_many_are_ahead() -> None:
    box = Box()
    box.inbox.put(ask(1))
    assert box.queued() == []
    box.take()
    for number in (2, 3, 4):
        box.inbox.put(ask(number))
    assert box.queued() == [(2, 1), (3, 2), (4, 3)]
    box.inbox.done(ENDED)
    assert box.take().work.request == 2
    assert box.queued() == [(3, 1), (4, 2)]


def test_M9_a_waiting_request_is_cancelled_at_once_and_the_others_move_up() -> None:
    box = Box()
    box.inbox.put(ask(1))
    box.take()
    for number in (2, 3, 4):
        box.inbox.put(ask(number))
    box.events.clear()
    box.inbox.cancel(2)
    assert isinstance(box.events[0], Finished)
    assert box.events[0].request == 2 and box.events[0].reason == "cancelled"
    assert box.queued() == [(3, 1), (4, 2)]
    box.inbox.cancel(2)
    assert box.events == []
    box.inbox.done(ENDED)
    assert box.take().work.request == 3


def test_M9_a_cancel_reaches_only_its_own_flag() -> None:
    box = Box()
    box.inbox.put(ask(1))
    box.inbox.put(ask(2))
    first = box.take().flag
    box.inbox.cancel(1)
    box.inbox.cancel(1)
    assert first.is_set
    box.inbox.done(ENDED)
    box.inbox.cancel(1)
    second = box.take().flag
    box.inbox.cancel(1)
    box.inbox.cancel(99)
    assert not second.is_set
    assert not any(isinstance(event, Finished) for event in box.events)


def test_M9_after_its_end_a_request_cannot_be_cancelled() -> None:
    box = Box()
    box.inbox.put(ask(1))
    flag = box.take().flag
    box.inbox.done(ENDED)
    box.inbox.cancel(1)
    assert not flag.is_set and box.events == []


def test_other_work_that_is_cancelled_while_waiting_fails_by_name() -> None:
    box = Box()
    box.inbox.put(LoadModel(request=1, settings=ModelSettings(path="x")))
    box.inbox.put(ClearCache(request=2))
    for number in (1, 2):
        box.inbox.cancel(number)
    failed = [event for event in box.events if isinstance(event, Failed)]
    assert [(event.request, event.error.name) for event in failed] == [
        (1, "RequestCancelled"),
        (2, "RequestCancelled"),
    ]


def test_M9_cancels_from_another_thread_hit_their_request_or_nothing() -> None:
    box = Box()
    numbers = range(0, 600, 2)

    def stop_all() -> None:
        for number in numbers:
            box.inbox.cancel(number)

    for number in numbers:
        box.inbox.put(ask(number))
    thread = threading.Thread(target=stop_all)
    thread.start()
    box.inbox.put(ask(1_000))
    taken: list[int] = []
    while 1_000 not in taken:
        taken.append(box.take().work.request)
        box.inbox.done(ENDED)
    thread.join()
    ended = [event.request for event in box.events if isinstance(event, Finished)]
    assert sorted([*ended, *taken]) == [*numbers, 1_000]
