"""T3: a reply that was stopped or cut off is continued from what was read, to the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.chat import AssistantMessage, Message
from core.api.params import CacheSettings, DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from tests.promises.fixtures import HEADED, PURE, RECURRENT, TILED, LoadedOf, PictureOf, families
from tests.promises.machine import Answer, Machine, num_common, system, user, words

FAMILIES = families("hybrid", "thinking", "keeps_thoughts", *RECURRENT, *HEADED, *TILED, *PURE)
SEEN = ("hybrid", "lfm2_vl", "lfm3_vl", "qwen3_vl", "gemma3", "gemma4")
# Random weights end a reply at any token; a penalty makes them say something else each time.
TEN = SamplingParams(temperature=0, max_tokens=10, frequency_penalty=0.3)


def cut_off(machine: Machine, chat: list[Message]) -> Answer:
    """Answer with ten tokens; none of them ends the reply."""
    answer = machine.same_as_cold(chat, sampling=TEN)
    assert answer.finished.reason == "length" and len(answer.ids) == 10
    return answer


# What makes a loaded model go on after so many messages, found once.
_SALTS: dict[tuple[int, int], str] = {}


def long_reply(machine: Machine, chat: list[Message]) -> Answer:
    """A reply of ten tokens that goes on; asks about other numbers until one does."""
    known = (id(machine.base), len(chat))
    for salt in _SALTS.get(known, "abcdefgh"):
        chat[-1] = user(words(12, salt))
        answer = machine.ask(chat, sampling=TEN)
        if known in _SALTS:
            return answer
        more = machine.cold([*chat, answer.finished.reply], sampling=TEN)
        last = machine.cold([*chat, more.finished.reply], sampling=TEN)
        if [len(each.ids) for each in (answer, more, last)] == [10, 10, 10]:
            _SALTS[known] = salt
            return answer
    raise AssertionError("the model never goes on for 30 tokens")


@pytest.mark.parametrize("machine", FAMILIES, indirect=True)
def test_T3_continue_reads_nothing_that_was_read(machine: Machine) -> None:
    chat: list[Message] = [system("Be brief."), user("")]
    first = long_reply(machine, chat)
    asked = first.stats.prompt_tokens
    # At once: the reply's own tokens are read for the first time.
    second = cut_off(machine, [*chat, first.paused])
    assert second.reused == asked and second.evaluated == 10
    assert second.stats.miss.reason == "unsettled"
    # Again: what the first Continue wrote.
    third = cut_off(machine, [*chat, second.paused])
    assert third.reused == asked + 10 and third.evaluated == 10
    # After idle time: nothing.
    settled = machine.settle([*chat, third.paused])
    assert settled.tokens > 0
    fourth = machine.same_as_cold([*chat, third.paused], sampling=TEN)
    assert fourth.evaluated == 0 and fourth.stats.miss is None
    assert machine.settle([*chat, third.paused]).tokens == 0


@pytest.mark.parametrize("machine", FAMILIES, indirect=True)
def test_T3_a_reply_without_text_is_continued_from_its_beginning(machine: Machine) -> None:
    chat: list[Message] = [user("Hi")]
    asked = machine.ask(chat)
    machine.cache.clear()
    assert machine.ask([*chat, AssistantMessage(text="")]).ids == asked.ids


@pytest.mark.parametrize("machine", FAMILIES, indirect=True)
def test_T3_the_turn_after_a_continued_reply_reads_the_new_message(machine: Machine) -> None:
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    machine.settle([*chat, first.paused])
    second = cut_off(machine, [*chat, first.paused])
    machine.settle([*chat, second.paused])
    later = [*chat, second.paused, user("More.")]
    answer = machine.same_as_cold(later)
    assert answer.stats.miss is None
    after_reply = answer.stats.prompt_tokens - answer.reused
    assert after_reply == answer.evaluated < 20
    # The chat has gone on, and both branches are still there.
    back = machine.same_as_cold(later)
    assert back.evaluated == 0
    other = machine.same_as_cold([*chat, second.paused, user("Another.")])
    assert other.reused == answer.reused


def test_T3_idle_work_reads_a_stopped_reply_once_where_the_template_shows_it_as_sampled(
    machine: Machine,
) -> None:
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    # Continue's form takes the ten tokens, that of later turns one more: the end of the turn.
    assert machine.settle([*chat, first.paused]).tokens == 11


@pytest.mark.parametrize("machine", SEEN, indirect=True)
def test_T3_a_reply_about_pictures_is_continued(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [user(picture(1), "What is it?", picture(2, "wide"))]
    first = machine.ask(chat, stop_after_tokens=3)
    machine.settle([*chat, first.paused])
    answer = machine.same_as_cold([*chat, first.paused])
    assert answer.evaluated == 0 and answer.stats.images_encoded == 0


@pytest.mark.parametrize("family", ["hybrid", "thinking", "lfm2", "llama", "qwen3_vl"])
def test_T3_D1_a_stopped_reply_is_continued_after_a_restart(
    loaded_of: LoadedOf, tmp_path: Path, family: str
) -> None:
    machine = Machine(loaded_of(family), tmp_path)
    chat: list[Message] = [user(words(80))]
    first = machine.ask(chat, stop_after_tokens=3)
    machine.settle([*chat, first.paused])
    machine.reopen()
    answer = machine.same_as_cold([*chat, first.paused])
    assert answer.evaluated == 0 and answer.stats.restored_from == "disk"
    machine.settle([*chat, answer.paused])
    machine.reopen()
    after = machine.same_as_cold([*chat, answer.paused, user("More.")])
    assert after.evaluated < 20 and after.stats.miss is None


@pytest.mark.parametrize("family", [*HEADED, "hybrid"])
@pytest.mark.parametrize("mode", ["lookup", "both"])
def test_T3_P1_drafts_change_nothing_of_a_continued_reply(
    loaded_of: LoadedOf, family: str, mode: str
) -> None:
    machine = Machine(loaded_of(family, "bfloat16"))
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    draft = DraftSettings.model_validate({"mode": mode})
    for settled in (False, True):
        drafting = Machine(machine.base)
        stopped = drafting.ask(chat, sampling=TEN, draft=draft)
        assert stopped.ids == first.ids
        if settled:
            drafting.settle([*chat, stopped.paused])
        on = drafting.ask([*chat, stopped.paused], sampling=TEN, draft=draft)
        assert on.ids == machine.cold([*chat, first.paused], sampling=TEN).ids
        assert on.evaluated == (0 if settled else 10)


def test_T3_P3_a_reply_of_a_format_is_continued(machine: Machine) -> None:
    form = ReplyFormat(kind="json_schema", text='{"type": "array", "items": {"type": "integer"}}')
    sampling = SamplingParams(temperature=1, seed=5, max_tokens=6)
    chat: list[Message] = [user("Numbers?")]
    first = machine.ask(chat, sampling=sampling, format=form)
    assert first.finished.reason == "length"
    machine.settle([*chat, first.paused])
    on = machine.same_as_cold([*chat, first.paused], sampling=sampling, format=form)
    assert on.evaluated == 0 and on.reply.text.startswith(first.reply.text)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_T3_X3_a_small_count_changes_no_bit_of_a_continued_reply(
    machine: Machine, count: int
) -> None:
    small = CacheSettings(count=count, interval=1)
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    machine.settle([*chat, first.paused], cache=small)
    second = machine.same_as_cold([*chat, first.paused], cache=small, sampling=TEN)
    machine.same_as_cold([*chat, second.paused, user("More.")], cache=small)
    machine.same_as_cold([*chat, second.paused], cache=small, sampling=TEN)


def test_T3_S9_going_on_from_one_stopped_reply_leaves_the_other_whole(machine: Machine) -> None:
    chat: list[Message] = [user(words(40))]
    branches: list[list[Message]] = []
    for seed in range(2):
        hot = SamplingParams(temperature=2, seed=seed, max_tokens=20)
        reply = machine.ask(chat, sampling=hot, chat="one").paused
        machine.settle([*chat, reply], chat="one")
        branches.append([*chat, reply, user("Go on.")])
    for branch in branches:
        assert machine.same_as_cold(branch, chat="one").stats.miss is None
    # A second chat begins the same; forgetting it takes nothing from the first.
    machine.same_as_cold(branches[0][:2], chat="two")
    machine.forget("two")
    for branch in branches:
        assert machine.same_as_cold(branch, chat="one").evaluated == 0


def test_T3_S9_a_stopped_reply_is_continued_after_the_chat_went_on_from_another(
    machine: Machine,
) -> None:
    chat: list[Message] = [user(words(12))]
    replies = []
    for seed in (1, 2):
        hot = SamplingParams(temperature=2, seed=seed, max_tokens=60)
        replies.append(machine.ask(chat, sampling=hot, say=[65 + seed] * 59).paused)
        machine.settle([*chat, replies[-1]])
    machine.same_as_cold([*chat, replies[0], user("Go on.")])
    other = machine.same_as_cold([*chat, replies[1]])
    assert other.evaluated == 0 and other.stats.miss is None


@pytest.mark.parametrize("count", [1, 2])
def test_T3_W1_the_reason_is_not_the_text_where_the_count_is_small(
    machine: Machine, count: int
) -> None:
    small = CacheSettings(count=count, interval=1)
    chat: list[Message] = [system("Be brief."), user("")]
    first = long_reply(machine, chat)
    on = machine.ask([*chat, first.paused], cache=small, sampling=TEN)
    assert on.stats.miss is None or on.stats.miss.reason in ("unsettled", "evicted")


def test_T3_a_reply_that_is_continued_often_keeps_the_states_of_its_last_end(
    machine: Machine,
) -> None:
    chat: list[Message] = [user(words(12))]
    reply = machine.ask(chat, sampling=TEN, say=[65] * 10).paused
    held = []
    for _ in range(6):
        machine.settle([*chat, reply])
        held.append(machine.cache.num_states())
        reply = machine.same_as_cold([*chat, reply], sampling=TEN, say=[66] * 10).paused
    assert held[2:] == [held[2]] * 4


@pytest.mark.parametrize("machine", PURE, indirect=True)
def test_M6_a_stop_before_the_first_run_of_a_pure_transformer_ends_the_request(
    machine: Machine,
) -> None:
    sparse = CacheSettings(count=32, interval=2**15)
    machine.ask([user(words(75))], cache=sparse)
    answer = machine.ask([user(words(75) + " end")], cache=sparse, cancel_prefill_after_tokens=0)
    assert answer.reused and answer.finished.reason == "cancelled"


def test_T3_a_reply_of_which_no_pause_is_known_resumes_from_its_prompt(machine: Machine) -> None:
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    # Stored before pauses were noted, or broken off by the engine's end.
    on = machine.same_as_cold([*chat, first.reply], sampling=TEN)
    assert on.reused == first.stats.prompt_tokens
    assert on.paused.ids is not None and on.paused.ids.pauses == (10, 20)


def test_T3_a_reply_that_ends_by_itself_after_a_pause_keeps_the_pause(machine: Machine) -> None:
    chat: list[Message] = [user("")]
    first = long_reply(machine, chat)
    end = next(iter(machine.base.text.end_of_turn_ids))
    whole = machine.ask([*chat, first.paused], say=[65, 66, end])
    assert whole.finished.reason == "stop"
    ids = whole.finished.reply.ids
    assert ids is not None and ids.pauses == (10,) and not ids.is_paused
    later = machine.same_as_cold([*chat, whole.finished.reply, user("More.")])
    # Its first part was read for Continue, and later turns show it the same.
    read = num_common(later.finished.prompt_ids, whole.finished.prompt_ids)
    assert read == whole.stats.prompt_tokens == later.reused
