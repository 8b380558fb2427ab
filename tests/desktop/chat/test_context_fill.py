from __future__ import annotations

from dataclasses import replace

import pytest

from core.api.errors import PromptTooLongError
from core.api.events import FinishReason
from core.api.stats import RequestStats
from desktop.chat.context_fill import (
    ContextFill,
    fill_of,
    fill_words,
    longer_context,
    plan,
)
from desktop.store.tables.records import ChatPath, Message, Picture, Reply, ReplyState
from tests.desktop.fake_engine import model_info

LIMIT = 1000


def message(number: int, text: str = "", reply: Reply | None = None) -> Message:
    return Message(number, 1, number - 1 or None, text, 0.0, reply=reply)


def reply(prompt: int, words: int, *starts: int, finish: FinishReason = "stop") -> Reply:
    stats = RequestStats(prompt_tokens=prompt, reply_tokens=words, message_starts=starts)
    return Reply(ReplyState.COMPLETE, finish_reason=finish, stats=stats)


def refused(tokens: int | None) -> Reply:
    return Reply(ReplyState.FAILED, error=PromptTooLongError("no", tokens).info())


MODEL = model_info(context_length=LIMIT, model_context_length=8192, grid=512)


def chat(*replies: Reply) -> ChatPath:
    """Ids from 1."""
    path: list[Message] = []
    for answer in replies:
        path.append(message(len(path) + 1, "user"))
        text = "" if answer.error else "reply"
        path.append(message(len(path) + 1, text, answer))
    return ChatPath(tuple(path), "key")


# The system message takes 20 tokens; then come messages of 100, 200, 100 and 150 tokens.
TWO = (reply(120, 200, 20), reply(450, 150, 20, 120, 320))


def test_every_message_counts_as_the_engine_counted_it() -> None:
    fill = fill_of(chat(*TWO), LIMIT)
    assert (fill.system, fill.costs) == (20, (100, 200, 130, 150))
    assert fill.tokens == 450 + 150 and fill.turns == (0, 2)


def test_a_reply_gone_on_with_is_counted_once() -> None:
    gone_on = reply(600, 50, 20, 120, 320, 450)
    fill = fill_of(chat(TWO[0], gone_on), LIMIT)
    assert fill.costs == (100, 200, 130, 150 + 50)


def test_what_no_request_has_counted_is_estimated() -> None:
    asked = chat(*TWO, reply(0, 0))
    picture = Picture("a" * 64, "a", (4, 4), tokens=90)
    path = [*asked.path[:4], replace(asked.path[4], text="x" * 300, pictures=(picture,))]
    fill = fill_of(replace(asked, path=tuple(path)), LIMIT)
    assert fill.costs[:4] == (100, 200, 130, 150)
    assert fill.costs[4] >= 90 + 100


def test_what_is_left_out_is_not_counted() -> None:
    fill = fill_of(replace(chat(*TWO), left_out=2), LIMIT)
    assert (fill.costs, fill.tokens, fill.turns) == ((130, 150), 300, (0,))
    assert not fill.can_drop and fill.cut(0) is None


def test_a_shorter_request_is_counted_from_its_own_first_message() -> None:
    third = reply(420, 60, 20, 150, 300)
    fill = fill_of(replace(chat(*TWO, third), left_out=2), LIMIT)
    assert fill.costs == (130, 150, 120, 60)


def test_from_three_quarters_on_it_says_so_with_its_numbers() -> None:
    assert fill_words(fill_of(chat(reply(730, 10, 0)), LIMIT), MODEL) == ""
    words = fill_words(fill_of(chat(reply(740, 10, 0)), LIMIT), MODEL)
    assert words == "This chat fills 75 % of the context (750 of 1,000 tokens)."


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (reply(800, 200, 0, 500, 600, finish="context"), "is full (1,000 of 1,000 tokens)"),
        (refused(1_100), "no room for the last message"),
    ],
)
def test_at_the_end_it_says_so_more_strongly(last: Reply, words: str) -> None:
    fill = fill_of(chat(reply(500, 300, 0), last), LIMIT)
    assert fill.full and words in fill_words(fill, MODEL)


def test_a_single_turn_that_fills_the_context_can_not_be_left_out() -> None:
    single, two = fill_of(chat(reply(400, 700, 0)), LIMIT), fill_of(chat(*TWO), LIMIT // 2)
    assert single.full and "from a summary." in fill_words(single, MODEL)
    assert two.full and "leave out the oldest turns" in fill_words(two, MODEL)


def test_of_a_message_that_is_too_long_by_itself_no_leaving_out_is_offered() -> None:
    single, last = fill_of(chat(refused(5_000)), LIMIT), fill_of(chat(*TWO, refused(1_800)), LIMIT)
    assert last.costs == (100, 200, 130, 150, 1_200, 0)
    for fill, tokens in ((single, "5,000"), (last, "1,200")):
        assert fill.alone and not fill.can_drop
        assert f"last message alone takes {tokens} tokens" in fill_words(fill, MODEL)
    fits = fill_of(chat(*TWO, refused(600 + 450)), LIMIT)
    assert not fits.alone and fits.can_drop


def test_a_longer_context_holds_the_chat_and_a_reply() -> None:
    fill = fill_of(chat(refused(5_000)), LIMIT)
    assert longer_context(fill, MODEL) == 6_144
    none = fill_of(chat(refused(8_000)), LIMIT)
    assert longer_context(none, MODEL) is None
    assert "hold more than 8,192 tokens" in fill_words(none, MODEL)


def test_the_cut_leaves_at_most_what_is_asked_and_always_the_last_turn() -> None:
    fill = ContextFill(LIMIT, 100, (300, 100, 200, 100, 50, 50), (0, 2, 4))
    assert [fill.cut(most) for most in (500, 499, 200, 0)] == [2, 4, 4, 4]


def test_a_plan_holds_while_it_leaves_at_most_half() -> None:
    # Seven turns of 60 and 40 tokens.
    path, starts, end = chat(*[reply(0, 0)] * 7), [0], 0
    for place in range(13):
        end += 60 if place % 2 == 0 else 40
        starts.append(end)
    counted = reply(end, 40, *starts[:13])
    path = replace(path, path=(*path.path[:-1], replace(path.path[-1], reply=counted)))
    fill = fill_of(path, LIMIT)
    first = plan(path, fill, None)
    assert fill.tokens == 700 and first == 8
    grown = replace(fill, costs=(*fill.costs, 60, 40), turns=(*fill.turns, 14))
    longer = replace(path, path=(*path.path, message(15), message(16, reply=reply(0, 0))))
    assert plan(longer, grown, first) == first
    much = replace(fill, costs=(*fill.costs, 160, 90), turns=(*fill.turns, 14))
    assert plan(longer, much, first) != first
