"""T1, T2: from one turn to the next, with templates that show thoughts, hide them, or have none."""

from __future__ import annotations

import pytest

from core.api.chat import AssistantMessage, Message, ReplyIds
from tests.oracle.checkpoints import token_id
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import Machine, last_end, user

TEMPLATES = ("hybrid", "thinking", "keeps_thoughts")
OPEN, CLOSE = token_id("<think>"), token_id("</think>")
# No reader of text would find these again: single bytes, broken characters, a placeholder.
ODD = [250, 65, 66, 200, token_id("<|image_pad|>"), 67, 129, 68]


@pytest.fixture(params=TEMPLATES)
def talker(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> Machine:
    machine = Machine(loaded_of(request.param))
    assert machine.base.info.spliced_replies, machine.base.info.history_note
    return machine


def holds(ids: tuple[int, ...], part: list[int]) -> bool:
    return any(list(ids[at : at + len(part)]) == part for at in range(len(ids) - len(part) + 1))


def reply_of(machine: Machine, ids: list[int], in_thought: bool) -> AssistantMessage:
    return AssistantMessage(
        text="unlike its ids",
        reasoning="unlike its ids" if in_thought else "",
        ids=ReplyIds.pack(ids, machine.base.info.tokenizer, in_thought),
    )


def test_T1_the_next_prompt_starts_with_this_one_up_to_its_last_message(
    talker: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user("What is it?", picture(1))]
    for said in ("And then?", "Why?", "Go on."):
        before = talker.same_as_cold(chat)
        chat += [before.reply, user(said)]
        after = talker.same_as_cold(chat)
        end = last_end(before.finished.prompt_ids)
        assert after.finished.prompt_ids[:end] == before.finished.prompt_ids[:end]
        assert after.reused == end
        # What is read is the reply, the new message and the template's words around them.
        assert after.evaluated <= len(before.ids) + 40


@pytest.mark.parametrize("thinking", [True, False, None])
def test_T2_odd_ids_are_spliced_where_the_template_shows_them(
    talker: Machine, thinking: bool | None
) -> None:
    in_thought = talker.base.info.thinking_switch and thinking is not False
    sampled = [70, 71, 251, CLOSE, 198, 198, *ODD] if in_thought else ODD
    chat: list[Message] = [user("Hi"), reply_of(talker, sampled, in_thought), user("More")]
    ids = talker.same_as_cold(chat, thinking=thinking).finished.prompt_ids
    assert holds(ids, ODD)
    assert holds(ids, [70, 71, 251]) == (in_thought and talker.base.info.name == "keeps_thoughts")


def test_T2_a_reply_cut_off_in_its_thought_is_no_obstacle(talker: Machine) -> None:
    in_thought = talker.base.info.thinking_switch
    chat: list[Message] = [user("Hi"), reply_of(talker, [70, 71, 251], in_thought), user("More")]
    first = talker.ask(chat[:1])
    second = talker.same_as_cold(chat)
    assert second.reused == last_end(first.finished.prompt_ids)
    third = talker.same_as_cold([*chat, second.reply, user("And more")])
    assert third.reused == last_end(second.finished.prompt_ids)


def test_T3_the_turn_after_a_stopped_reply_reuses_what_came_before(talker: Machine) -> None:
    chat: list[Message] = [user("Hi")]
    first = talker.ask(chat, stop_after_tokens=2)
    assert first.finished.reason == "cancelled" and len(first.ids) == 2
    second = talker.same_as_cold([*chat, first.paused, user("More")])
    # The template may show the reply after another header than the one it was sampled after.
    asked = first.finished.prompt_ids
    shares_header = second.finished.prompt_ids[: len(asked)] == asked
    assert second.reused == (len(asked) if shares_header else last_end(asked))
