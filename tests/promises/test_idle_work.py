"""Idle work: what was settled or read ahead is not read by the request, and changes no bit."""

from __future__ import annotations

import pytest

from core.api.chat import Message
from core.api.errors import PromptTooLongError, RequestCancelled
from core.api.params import CacheSettings, SamplingParams
from tests.promises.fixtures import PictureOf
from tests.promises.machine import CountdownFlag, Machine, last_end, user, words

FIVE = SamplingParams(temperature=0, max_tokens=5)


def test_W2_what_settling_tells_of_the_context_ends_with_the_reply_it_settled(
    machine: Machine,
) -> None:
    asked: list[Message] = [user("what is it?")]
    first = machine.ask(asked)
    settled = [*asked, first.reply]
    done = machine.settle(settled)
    before_reply = last_end(first.finished.prompt_ids)
    assert done.parts[-1].end == before_reply + done.tokens
    assert done.checkpoints[-1].token == done.parts[-1].end
    # Once more, with nothing left to read, it tells the same.
    again = machine.settle(settled)
    assert again.tokens == 0 < done.tokens and again.parts == done.parts


def test_S1_what_is_settled_already_leaves_the_chat_worked_on_where_it_is(machine: Machine) -> None:
    chat: list[Message] = [user(words(40))]
    settled = [*chat, machine.ask(chat).reply]
    machine.settle(settled)
    other = [user(words(40, "other"))]
    machine.ask(other)
    keys = machine.cache.tree.keys(machine.prompt(other))
    assert machine.settle(settled).tokens == 0
    nodes = machine.cache.tree.match(keys)
    assert len(nodes) == len(keys) and all(node.in_kv_buffer for node in nodes)
    assert machine.same_as_cold([*settled, user("And?")]).evaluated < 30


def test_S5_the_stop_survives_settling(machine: Machine) -> None:
    asked: list[Message] = [user(words(30))]
    first = machine.ask(asked)
    machine.settle([*asked, first.reply])
    again = machine.same_as_cold(asked)
    assert again.evaluated == 0 and again.ids == first.ids


def test_M6_interrupted_settling_keeps_what_it_finished(machine: Machine) -> None:
    asked: list[Message] = [user("hi")]
    long = SamplingParams(temperature=0, max_tokens=200)
    settled = [*asked, machine.ask(asked, sampling=long).reply]
    # One look before each run and between its layers: stop inside the third run.
    with pytest.raises(RequestCancelled):
        machine.settle(settled, flag=CountdownFlag(2 * 5 + 2))
    machine.cache.check_integrity()
    answer = machine.same_as_cold([*settled, user("more")])
    first_read = last_end(machine.ask(asked).finished.prompt_ids)
    assert answer.reused == first_read + 2 * 64
    assert answer.stats.miss is not None and answer.stats.miss.reason == "unsettled"
    assert answer.stats.miss.message == 1 and answer.stats.miss.token == answer.reused


def test_S12_with_checkpoints_off_nothing_is_settled(machine: Machine) -> None:
    off = CacheSettings(count=0, interval=1)
    asked: list[Message] = [user("hi")]
    first = machine.ask(asked, cache=off)
    assert machine.settle([*asked, first.reply], cache=off).tokens == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_X3_settling_under_a_small_count_changes_no_bit(machine: Machine, count: int) -> None:
    small = CacheSettings(count=count, interval=1)
    asked: list[Message] = [user("hi")]
    settled = [*asked, machine.ask(asked, cache=small).reply]
    machine.settle(settled, cache=small)
    assert machine.cache.num_states() <= count
    answer = machine.same_as_cold([*settled, user("more")], cache=small)
    assert answer.stats.miss is None


@pytest.mark.parametrize("machine", ["thinking"], indirect=True)
def test_T3_a_reply_stopped_while_thinking_settles_with_an_empty_answer(machine: Machine) -> None:
    asked: list[Message] = [user("hi")]
    stopped = machine.ask(asked, stop_after_tokens=3, thinking=True)
    assert stopped.reply.text == "" and stopped.reply.reasoning
    held = [*asked, stopped.paused]
    assert machine.settle(held).tokens > 0
    assert machine.same_as_cold([*held, user("more")]).stats.miss is None


def test_I1_a_picture_read_ahead_is_neither_encoded_nor_read_on_send(
    machine: Machine, picture: PictureOf
) -> None:
    done = machine.read_ahead([user(picture(1))])
    assert done.encoded == 1 and done.tokens > 0
    answer = machine.same_as_cold([user(picture(1), "what is it?")])
    assert answer.reused == done.tokens and answer.stats.images_encoded == 0


def test_I3_a_picture_taken_out_again_leaves_nothing_behind(
    machine: Machine, picture: PictureOf
) -> None:
    asked: list[Message] = [user("hi")]
    settled = [*asked, machine.ask(asked).reply]
    machine.settle(settled)
    machine.read_ahead([*settled, user(picture(1))])
    answer = machine.same_as_cold([*settled, user("no picture")])
    assert answer.stats.miss is None and answer.stats.images_in_prompt == 0


def test_a_long_draft_is_read_up_to_a_grid_cut_well_before_the_caret(machine: Machine) -> None:
    draft = user(words(100))
    done = machine.read_ahead([draft])
    end = last_end(machine.prompt([draft]).ids(0)) - 1
    assert done.tokens % 64 == 0 and 64 <= end - done.tokens < 128 + 1
    longer = user(words(100) + " and more")
    assert machine.same_as_cold([longer]).reused == done.tokens


def test_a_short_draft_reads_no_text_of_its_own(machine: Machine) -> None:
    assert machine.read_ahead([user("a few words")]).tokens == 0


def test_M8_a_draft_longer_than_the_context_is_left_to_the_request(machine: Machine) -> None:
    too_long = [user(words(3000))]
    assert machine.read_ahead(too_long).tokens == 0
    with pytest.raises(PromptTooLongError):
        machine.ask(too_long)
