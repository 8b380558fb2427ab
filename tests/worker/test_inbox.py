"""The queue in front of the engine: order, cancels, places, and idle work behind all other."""

from __future__ import annotations

import threading

from core.api.chat import Conversation
from core.api.commands import ClearCache, Forget, Generate, LoadModel, ReadAhead, Settle
from core.api.errors import RequestCancelled
from core.api.events import Done, Event, Failed, Finished, Prepared, Queued
from core.api.params import ModelSettings
from core.api.stats import CacheBytes
from core.worker.inbox import Entry, Inbox

ENDED = Done(request=0)
NOTHING = Conversation(messages=())
STOPPED = RequestCancelled("stopped").info()


def ask(number: int) -> Generate:
    return Generate(request=number, conversation=NOTHING)


def settle(request: int) -> Settle:
    return Settle(request=request, conversation=NOTHING)


def prepared(request: int) -> Prepared:
    return Prepared(request=request, tokens=0, encoded=0, bytes=CacheBytes())


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


def test_idle_work_waits_behind_all_other() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.put(ReadAhead(request=2, conversation=NOTHING))
    box.inbox.put(ClearCache(request=3))
    assert box.take().work.request == 3
    box.inbox.done(Done(request=3))
    assert box.take().work.request == 1
    assert not box.events


def test_arriving_work_interrupts_idle_work_which_comes_again() -> None:
    box = Box()
    box.inbox.put(settle(1))
    first = box.take()
    box.inbox.put(ask(2))
    assert first.flag.is_set
    assert not any(isinstance(event, Queued) for event in box.events)
    assert not box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take().work.request == 2
    box.inbox.done(Done(request=2))
    again = box.take()
    assert again.work.request == 1 and not again.flag.is_set


def test_idle_work_that_ends_before_it_sees_the_interruption_has_ended() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.take()
    box.inbox.put(ask(2))
    assert box.inbox.done(prepared(1))
    assert box.take().work.request == 2
    box.inbox.done(Done(request=2))
    box.inbox.put(ask(3))
    assert box.take().work.request == 3


def test_a_stopped_settling_does_not_come_again_even_when_it_was_interrupted() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.take()
    box.inbox.put(ask(2))
    box.inbox.cancel(1)
    assert box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take().work.request == 2


def test_idle_work_does_not_interrupt_idle_work() -> None:
    box = Box()
    box.inbox.put(settle(1))
    running = box.take()
    box.inbox.put(settle(2))
    assert not running.flag.is_set


def test_a_waiting_settling_can_be_stopped() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.cancel(1)
    assert isinstance(box.events[0], Failed)
    box.inbox.put(ask(2))
    assert box.take().work.request == 2


def test_M2_forgetting_a_chat_stops_its_idle_work_for_good_and_no_other() -> None:
    box = Box()
    for request, chat in ((1, "gone"), (2, "kept"), (3, "gone")):
        box.inbox.put(Settle(request=request, conversation=NOTHING, chat=chat))
    running = box.take()
    box.inbox.put(Forget(request=4, chat="gone"))
    assert running.flag.is_set
    assert [(event.type, event.request) for event in box.events if isinstance(event, Failed)] == [
        ("failed", 3)
    ]
    assert box.inbox.done(Failed(request=1, error=STOPPED))
    assert [box.take().work.request for _ in range(2)] == [4, 2]
    assert box.inbox.take(0) is None


def test_M2_forgetting_everything_stops_all_idle_work() -> None:
    box = Box()
    box.inbox.put(Settle(request=1, conversation=NOTHING, chat="a"))
    box.inbox.put(Forget(request=2, chat=None))
    assert box.take().work.request == 2 and box.inbox.take(0) is None


def test_nobody_s_idle_work_is_nobody_s_to_forget() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.put(Forget(request=2, chat=""))
    assert [box.take().work.request for _ in range(2)] == [2, 1]
