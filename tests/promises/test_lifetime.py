"""M6, M9: a request that is stopped keeps what it read, and its stop is its own."""

from __future__ import annotations

import pytest

from core.api.chat import Message
from core.api.errors import RequestCancelled
from core.api.params import CacheSettings
from core.engine.cancel import CancelFlag
from tests.promises.fixtures import PictureOf
from tests.promises.machine import CountdownFlag, Machine, user, words


@pytest.mark.parametrize("settings", [CacheSettings(interval=32_768), CacheSettings(count=1)])
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_M6_a_stopped_prefill_keeps_its_last_finished_cut(
    machine: Machine, settings: CacheSettings, runs: int
) -> None:
    chat: list[Message] = [user(words(200))]
    flag = CancelFlag()
    stopped = machine.ask(
        chat, cache=settings, flag=flag, before_forward=lambda n: flag.set() if n == runs else None
    )
    assert stopped.finished.reason == "cancelled" and stopped.ids == ()
    assert stopped.fed == (64,) * runs
    then = machine.same_as_cold(chat, cache=settings)
    assert then.reused == 64 * runs


def test_M6_with_checkpoints_off_nothing_is_kept(machine: Machine) -> None:
    off = CacheSettings(count=0)
    chat: list[Message] = [user(words(100))]
    machine.ask(chat, cache=off, flag=CountdownFlag(9))
    assert machine.same_as_cold(chat, cache=off).reused == 0


def test_M6_a_stop_before_the_first_cut_leaves_nothing(machine: Machine) -> None:
    chat: list[Message] = [user(words(100))]
    stopped = machine.ask(chat, flag=CountdownFlag(0))
    assert stopped.finished.reason == "cancelled" and stopped.evaluated == 0
    assert machine.same_as_cold(chat).reused == 0


@pytest.mark.parametrize("looks", [0, 3, 7, 12, 17])
def test_M6_interrupted_idle_work_goes_on_where_it_stopped(
    machine: Machine, picture: PictureOf, looks: int
) -> None:
    chat: list[Message] = [user("Hi")]
    first = machine.ask(chat)
    chat += [first.reply, user(words(60), picture(1, "wide"), words(90))]
    with pytest.raises(RequestCancelled):
        machine.read_ahead(chat, flag=CountdownFlag(looks))
    done = sum(machine.model.fed)
    rest = machine.read_ahead(chat)
    again = Machine(machine.base)
    again.ask(chat[:1])
    assert done + rest.tokens == again.read_ahead(chat).tokens > 150
    assert machine.read_ahead(chat).tokens == 0
    answer = machine.same_as_cold(chat)
    assert answer.stats.images_encoded == 0 and answer.evaluated < 150


def test_M9_a_stop_belongs_to_its_request_alone(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [user(picture(1), "What is it?")]
    flag = CancelFlag()
    first = machine.ask(chat, flag=flag)
    flag.set()
    flag.set()
    again = machine.ask(chat)
    assert again.ids == first.ids and again.finished.reason == first.finished.reason
    # A flag that was set before its own request began stops it at once.
    assert machine.ask(chat, flag=flag).finished.reason == "cancelled"
    assert machine.same_as_cold(chat).finished.reason == "length"
