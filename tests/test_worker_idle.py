"""Idle work in the queue: it waits behind all other, makes way at once, and comes again."""

from __future__ import annotations

from core.api.chat import Conversation
from core.api.commands import ClearCache, Generate, ReadAhead, Settle
from core.api.errors import RequestCancelled
from core.api.events import CacheBytes, Done, Event, Failed, Prepared, Queued
from core.worker import Inbox

NOTHING = Conversation(messages=())
STOPPED = RequestCancelled("stopped").info()


def generate(request: int) -> Generate:
    return Generate(request=request, conversation=NOTHING)


def settle(request: int) -> Settle:
    return Settle(request=request, conversation=NOTHING)


def prepared(request: int) -> Prepared:
    return Prepared(request=request, tokens=0, encoded=0, bytes=CacheBytes())


class Box:
    """An inbox and what it emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.inbox = Inbox(self.events.append)

    def take(self) -> int:
        return self.inbox.take().work.request


def test_idle_work_waits_behind_all_other() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.put(ReadAhead(request=2, conversation=NOTHING))
    box.inbox.put(ClearCache(request=3))
    assert box.take() == 3
    box.inbox.done(Done(request=3))
    assert box.take() == 1
    assert not box.events


def test_arriving_work_interrupts_idle_work_which_comes_again() -> None:
    box = Box()
    box.inbox.put(settle(1))
    first = box.inbox.take()
    box.inbox.put(generate(2))
    assert first.flag.is_set
    assert not any(isinstance(event, Queued) for event in box.events)
    assert not box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take() == 2
    box.inbox.done(Done(request=2))
    again = box.inbox.take()
    assert again.work.request == 1 and not again.flag.is_set


def test_idle_work_that_ends_before_it_sees_the_interruption_has_ended() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.take()
    box.inbox.put(generate(2))
    assert box.inbox.done(prepared(1))
    assert box.take() == 2
    box.inbox.done(Done(request=2))
    box.inbox.put(generate(3))
    assert box.take() == 3


def test_a_stopped_settling_does_not_come_again_even_when_it_was_interrupted() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.take()
    box.inbox.put(generate(2))
    box.inbox.cancel(1)
    assert box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take() == 2


def test_idle_work_does_not_interrupt_idle_work() -> None:
    box = Box()
    box.inbox.put(settle(1))
    running = box.inbox.take()
    box.inbox.put(settle(2))
    assert not running.flag.is_set


def test_a_waiting_settling_can_be_stopped() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.cancel(1)
    assert isinstance(box.events[0], Failed)
    box.inbox.put(generate(2))
    assert box.take() == 2
