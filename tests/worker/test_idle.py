"""Idle work in the queue: it waits behind all other, makes way at once, and comes again."""

from __future__ import annotations

import pytest

from core.api.chat import Conversation
from core.api.commands import ClearCache, Forget, Generate, ReadAhead, Settle
from core.api.errors import RequestCancelled
from core.api.events import Done, Event, Failed, Prepared, Queued
from core.api.stats import CacheBytes
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.worker.inbox import Entry, Inbox
from core.worker.worker import IdleWriter

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

    def entry(self) -> Entry:
        entry = self.inbox.take()
        assert entry is not None
        return entry

    def take(self) -> int:
        return self.entry().work.request


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
    first = box.entry()
    box.inbox.put(generate(2))
    assert first.flag.is_set
    assert not any(isinstance(event, Queued) for event in box.events)
    assert not box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take() == 2
    box.inbox.done(Done(request=2))
    again = box.entry()
    assert again.work.request == 1 and not again.flag.is_set


def test_idle_work_that_ends_before_it_sees_the_interruption_has_ended() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.entry()
    box.inbox.put(generate(2))
    assert box.inbox.done(prepared(1))
    assert box.take() == 2
    box.inbox.done(Done(request=2))
    box.inbox.put(generate(3))
    assert box.take() == 3


def test_a_stopped_settling_does_not_come_again_even_when_it_was_interrupted() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.entry()
    box.inbox.put(generate(2))
    box.inbox.cancel(1)
    assert box.inbox.done(Failed(request=1, error=STOPPED))
    assert box.take() == 2


def test_idle_work_does_not_interrupt_idle_work() -> None:
    box = Box()
    box.inbox.put(settle(1))
    running = box.entry()
    box.inbox.put(settle(2))
    assert not running.flag.is_set


def test_a_waiting_settling_can_be_stopped() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.cancel(1)
    assert isinstance(box.events[0], Failed)
    box.inbox.put(generate(2))
    assert box.take() == 2


def test_M2_forgetting_a_chat_stops_its_idle_work_for_good_and_no_other() -> None:
    box = Box()
    for request, chat in ((1, "gone"), (2, "kept"), (3, "gone")):
        box.inbox.put(Settle(request=request, conversation=NOTHING, chat=chat))
    running = box.entry()
    box.inbox.put(Forget(request=4, chat="gone"))
    assert running.flag.is_set
    assert [(event.type, event.request) for event in box.events if isinstance(event, Failed)] == [
        ("failed", 3)
    ]
    assert box.inbox.done(Failed(request=1, error=STOPPED))
    assert [box.take(), box.take()] == [4, 2]
    assert box.inbox.take(0) is None


def test_M2_forgetting_everything_stops_all_idle_work() -> None:
    box = Box()
    box.inbox.put(Settle(request=1, conversation=NOTHING, chat="a"))
    box.inbox.put(Forget(request=2, chat=None))
    assert box.take() == 2 and box.inbox.take(0) is None


def test_nobody_s_idle_work_is_nobody_s_to_forget() -> None:
    box = Box()
    box.inbox.put(settle(1))
    box.inbox.put(Forget(request=2, chat=""))
    assert [box.take(), box.take()] == [2, 1]


class Disk(Engine):
    """An engine with so many segments to write, one of which may fail."""

    def __init__(self, segments: int, broken: bool = False) -> None:
        super().__init__()
        self.segments = segments
        self.broken = broken
        self.written = self.checked = 0

    def write_some(self, flag: CancelFlag) -> bool:
        if self.broken:
            raise OSError("the disk is gone")
        self.written += self.segments > 0
        self.segments -= self.segments > 0
        return self.segments > 0

    def check_integrity(self) -> None:
        self.checked += 1
        raise AssertionError("a sum is wrong")


def test_D2_one_segment_at_a_time_is_written_once_it_is_quiet() -> None:
    disk = Disk(segments=2)
    quiet = IdleWriter(disk, idle_s=7)
    quiet.request_ended()
    seen = [(quiet.wait_s, disk.written)]
    for _ in range(2):
        quiet.step()
        seen.append((quiet.wait_s, disk.written))
    # The inbox is looked at before each; in the end there is nothing to wait for.
    assert seen == [(7, 0), (0, 1), (None, 2)] and disk.checked == 0


def test_what_fails_while_it_is_quiet_is_logged_and_waits_for_the_next_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quiet = IdleWriter(Disk(segments=1, broken=True), idle_s=7)
    quiet.request_ended()
    quiet.step()
    assert quiet.wait_s is None and "OSError, raised at" in capsys.readouterr().err
    quiet.request_ended()
    assert quiet.wait_s == 7


def test_integrity_is_checked_when_all_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    disk = Disk(segments=2)
    quiet = IdleWriter(disk, checks=True)
    quiet.step()
    assert disk.checked == 0
    quiet.step()
    assert disk.checked == 1 and "AssertionError, raised at" in capsys.readouterr().err
