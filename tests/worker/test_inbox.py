"""The queue in front of the engine: order, cancels, places, and idle work behind all other."""

from __future__ import annotations

import threading

import pytest

from core.api.chat import Conversation
from core.api.commands import ClearCache, Forget, Generate, LoadModel, PrefillDraft, PrefillReply
from core.api.errors import RequestCancelled
from core.api.events import Done, Event, Failed, Finished, Prepared, Queued
from core.api.params import ModelSettings
from core.api.stats import CacheBytes
from core.engine.cancel import CancelFlag
from core.worker.inbox import Inbox, Work

ENDED = Done(request=0)
NOTHING = Conversation(messages=())
STOPPED = Failed(request=1, error=RequestCancelled("stopped").info())


def ask(number: int) -> Generate:
    return Generate(request=number, conversation=NOTHING)


def idle(request: int, chat: str = "") -> PrefillReply:
    return PrefillReply(request=request, conversation=NOTHING, chat=chat)


class Box(Inbox):
    """An inbox that remembers what it emitted."""

    def __init__(self, *commands: Work) -> None:
        self.events: list[Event] = []
        super().__init__(self.events.append)
        self.put_all(*commands)

    def put_all(self, *commands: Work) -> None:
        for command in commands:
            self.put(command)

    def next(self) -> tuple[int, CancelFlag]:
        entry = self.take()
        assert entry is not None
        return entry.work.request, entry.flag

    def queued(self) -> list[tuple[int, int]]:
        found = [(e.request, e.ahead) for e in self.events if isinstance(e, Queued)]
        self.events.clear()
        return found


def test_work_is_done_in_order_and_who_waits_is_told_how_many_are_ahead() -> None:
    box = Box(ask(1))
    assert box.queued() == []
    assert box.next()[0] == 1
    box.put_all(ask(2), ask(3), ask(4))
    assert box.queued() == [(2, 1), (3, 2), (4, 3)]
    box.done(ENDED)
    assert box.next()[0] == 2
    assert box.queued() == [(3, 1), (4, 2)]
    assert [box.next()[0] for _ in range(2)] == [3, 4]


def test_M9_a_waiting_request_is_cancelled_at_once_and_the_others_move_up() -> None:
    box = Box(ask(1))
    box.next()
    box.put_all(ask(2), ask(3), ask(4))
    box.events.clear()
    box.cancel(2)
    assert isinstance(box.events[0], Finished)
    assert box.events[0].request == 2 and box.events[0].reason == "cancelled"
    assert box.queued() == [(3, 1), (4, 2)]
    box.cancel(2)
    assert box.events == []
    box.done(ENDED)
    assert box.next()[0] == 3


def test_M9_a_cancel_reaches_only_its_own_flag_and_none_after_its_end() -> None:
    box = Box(ask(1), ask(2))
    _, first = box.next()
    box.cancel(1)
    box.cancel(1)
    assert first.is_set
    box.done(ENDED)
    box.cancel(1)
    _, second = box.next()
    box.cancel(1)
    box.cancel(99)
    assert not second.is_set
    box.done(ENDED)
    box.cancel(2)
    assert not second.is_set and not any(isinstance(event, Finished) for event in box.events)


@pytest.mark.parametrize(
    "waiting",
    [LoadModel(request=1, settings=ModelSettings(path="x")), ClearCache(request=1), idle(1)],
)
def test_other_work_that_is_cancelled_while_waiting_fails_by_name(waiting: Work) -> None:
    box = Box(waiting)
    box.cancel(1)
    (failed,) = box.events
    assert isinstance(failed, Failed)
    assert (failed.request, failed.error.name) == (1, "RequestCancelled")
    box.put(ask(2))
    assert box.next()[0] == 2


def test_M9_cancels_from_another_thread_hit_their_request_or_nothing() -> None:
    numbers = range(0, 600, 2)
    box = Box(*map(ask, numbers))

    def stop_all() -> None:
        for number in numbers:
            box.cancel(number)

    thread = threading.Thread(target=stop_all)
    thread.start()
    box.put(ask(1_000))
    taken: list[int] = []
    while 1_000 not in taken:
        taken.append(box.next()[0])
        box.done(ENDED)
    thread.join()
    ended = [event.request for event in box.events if isinstance(event, Finished)]
    assert sorted([*ended, *taken]) == [*numbers, 1_000]


def test_idle_work_waits_behind_all_other() -> None:
    draft = PrefillDraft(request=2, conversation=NOTHING)
    box = Box(idle(1), draft, ClearCache(request=3))
    assert box.next()[0] == 3
    box.done(ENDED)
    _, running = box.next()
    assert not box.events
    box.put(idle(4))
    assert not running.is_set, "idle work does not interrupt idle work"


@pytest.mark.parametrize(
    ("work", "stopped"),
    [
        (idle(1), STOPPED),
        (Generate(request=1, conversation=NOTHING, side=True, idle=True), Finished.unbegun(1)),
    ],
)
def test_M5_arriving_work_interrupts_idle_work_which_comes_again(
    work: Work, stopped: Failed | Finished
) -> None:
    box = Box(work)
    _, first = box.next()
    box.put(ask(2))
    assert first.is_set
    assert not any(isinstance(event, Queued) for event in box.events)
    assert not box.done(stopped)
    assert box.next()[0] == 2
    box.done(ENDED)
    again, flag = box.next()
    assert again == 1 and not flag.is_set


@pytest.mark.parametrize("stopped", [False, True])
def test_interrupted_idle_work_that_ended_or_was_stopped_does_not_come_again(stopped: bool) -> None:
    box = Box(idle(1))
    box.next()
    box.put(ask(2))
    if stopped:
        box.cancel(1)
    ended = Prepared(request=1, tokens=0, encoded=0, bytes=CacheBytes())
    assert box.done(STOPPED if stopped else ended)
    assert box.next()[0] == 2
    box.done(ENDED)
    assert box.take(0) is None


def test_M2_forgetting_a_chat_stops_its_idle_work_for_good_and_no_other() -> None:
    box = Box(idle(1, "gone"), idle(2, "kept"), idle(3, "gone"))
    _, running = box.next()
    box.put(Forget(request=4, chat="gone"))
    assert running.is_set
    assert [event.request for event in box.events if isinstance(event, Failed)] == [3]
    assert box.done(STOPPED)
    assert [box.next()[0] for _ in range(2)] == [4, 2]
    assert box.take(0) is None


@pytest.mark.parametrize(("chat", "forgotten", "left"), [("a", None, [2]), ("", "", [2, 1])])
def test_M2_forgetting_everything_stops_all_idle_work_and_forgetting_nobody_s_none(
    chat: str, forgotten: str | None, left: list[int]
) -> None:
    box = Box(idle(1, chat), Forget(request=2, chat=forgotten))
    assert [box.next()[0] for _ in left] == left and box.take(0) is None
