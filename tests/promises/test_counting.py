"""W1, W2: what is shown is what was counted, and what was counted is what was computed.

Every `Machine.ask` in these tests compares the counters with the model's own calls; here are the
fields as such.
"""

from __future__ import annotations

from itertools import accumulate

import pytest

from core.api.chat import Message
from core.api.events import Finished, Generated, Prefilling
from core.api.params import CacheSettings
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import Machine, system, user, words


def test_W1_every_reply_carries_its_numbers(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [system("Brief."), user(picture(1, "wide"), words(40))]
    first = machine.ask(chat)
    chat += [first.reply, user(picture(1, "wide"), "And?")]
    stats = machine.ask(chat).stats
    assert stats.restored_from == "slab" and stats.restored_at.token == stats.reused_tokens
    assert (stats.images_in_prompt, stats.images_encoded) == (2, 0)
    assert 0 < stats.prefill_s <= stats.ttft_s and stats.decode_tokens_per_s > 0
    assert (stats.miss.reason, stats.miss.message) == ("unsettled", 1)
    assert stats.context_length == 4096 and stats.seed is not None
    assert stats.bytes.kv > 0 and stats.bytes.embeddings == 8 * 32 * 4
    assert stats.bytes.checkpoints == stats.checkpoints_held * stats.checkpoints[0].bytes


def test_W1_every_token_read_again_has_a_reason(machine: Machine) -> None:
    one, other = [user(words(80, "a"))], [user(words(80, "b"))]
    small = CacheSettings(count=2, interval=1)
    assert machine.ask(one, cache=small).stats.miss is None
    machine.ask(other, cache=small)
    evicted = machine.ask(one, cache=small).stats
    assert evicted.miss.reason == "evicted" and evicted.miss.message == 0
    machine.cache.clear()
    reply = machine.ask(one).reply
    machine.cache.clear()
    cold = machine.ask([*one, reply, user("More")]).stats
    assert (cold.miss.reason, cold.miss.token, cold.miss.message) == ("cold", 0, 0)


def test_W1_an_old_chat_that_shares_its_beginning_with_a_new_one_is_cold(machine: Machine) -> None:
    rules = system("Be brief.")
    chat: list[Message] = [rules, user("One")]
    for said in ("Two", "Three"):
        chat += [machine.ask(chat).reply, user(said)]
    machine.cache.clear()
    machine.ask([rules, user("Another chat")])
    answer = machine.ask(chat)
    assert answer.stats.miss.reason == "cold" and answer.stats.miss.message == 0
    assert answer.stats.miss.token == answer.reused > 0


def test_W2_progress_counts_up_to_the_prompt(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [user(words(100), picture(1), words(50))]
    machine.ask([user(words(100))])
    answer = machine.ask(chat)
    progress = [event for event in answer.events if isinstance(event, Prefilling)]
    expected = [answer.reused]
    for count in answer.fed:
        expected.append(expected[-1] + count)
    assert [event.done for event in progress] == expected
    assert expected[-1] == answer.stats.prompt_tokens and answer.reused > 0
    assert all(
        event.stats.reused_tokens + event.stats.evaluated_tokens == event.done for event in progress
    )


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_W2_progress_is_told_once_a_forward(loaded_of: LoadedOf, precision: str) -> None:
    base = loaded_of("hybrid", precision)
    if not base.model.batch_invariant:
        pytest.skip("torch's own products of many rows are faster here")
    machine = Machine(base)
    chat: list[Message] = [user("One")]
    for index in range(20):
        chat += [machine.ask(chat[:1]).reply, user(words(3, f"{index}-"))]
    machine.cache.clear()
    answer = machine.ask(chat)
    done = [event.done for event in answer.events if isinstance(event, Prefilling)]
    assert done == [0, *accumulate(answer.fed)] and done[-1] == answer.stats.prompt_tokens
    assert len(done) < len(machine.prompt(chat).runs) // 4


def test_W2_the_streamed_reply_is_the_reply(machine: Machine) -> None:
    answer = machine.ask([user("Say something.")])
    bursts = [event for event in answer.events if isinstance(event, Generated)]
    assert tuple(token for burst in bursts for token in burst.ids) == answer.ids
    assert "".join(burst.answer for burst in bursts) == answer.reply.text
    assert not any(isinstance(event, Finished) for event in answer.events)


def test_W2_encoded_pictures_are_calls_of_the_tower(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [user(picture(1), picture(2), picture(1), "Three.")]
    first = machine.same_as_cold(chat)
    assert (first.stats.images_in_prompt, first.stats.images_encoded) == (3, 2)
    assert machine.model.num_encoded == 2
    again = machine.same_as_cold(chat)
    assert again.stats.images_encoded == machine.model.num_encoded == 0


def test_a_chat_that_begins_otherwise_says_so(machine: Machine) -> None:
    chat: list[Message] = []
    for number in range(3):
        chat.append(user(f"{number} {words(30)}"))
        chat.append(machine.ask(chat, chat="a").reply)
    left = [*chat[2:], user("And?")]
    answer = machine.ask(left, chat="a")
    miss = answer.stats.miss
    assert answer.reused == 0 and miss is not None
    assert (miss.reason, miss.token) == ("diverged", 0)
    # Of a chat that nothing was read of, the same is the first reading.
    assert machine.ask([user("x"), *left], chat="b").stats.miss.reason == "cold"
