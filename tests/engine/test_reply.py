"""How a reply is streamed, and the limits at which it ends by itself."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from core.api.chat import AssistantMessage, ReplyIds
from core.api.events import Generated, Prefilling
from core.api.limits import LOOP_PERIOD, LOOP_TIMES, LOOP_TOKENS
from core.api.params import DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.engine import reply
from core.engine.loaded import LoadedModel
from core.engine.reply import LoopDetector
from tests.oracle.checkpoints import token_id
from tests.promises.fixtures import LoadedOf
from tests.promises.machine import Answer, Machine, user


def so_far(answer: Answer) -> ReplyIds | None:
    """The reply's ids, told from the events before the last one."""
    begun: ReplyIds | None = None
    for event in answer.events:
        if isinstance(event, Prefilling):
            begun = event.begun
        elif isinstance(event, Generated):
            assert begun is not None
            begun = begun.extended(event.ids)
    return begun


@pytest.mark.parametrize("model", ["hybrid", "thinking"])
def test_T3_a_reply_that_was_broken_off_keeps_its_ids(loaded_of: LoadedOf, model: str) -> None:
    machine = Machine(loaded_of(model))
    answer = machine.ask([user("Hello")], thinking=True)
    assert answer.finished.reason == "length"
    broken_off = so_far(answer)
    assert broken_off is not None and answer.reply.ids is not None
    assert broken_off == answer.reply.ids and broken_off.paused() == answer.paused.ids
    assert answer.reply.ids.starts_in_reasoning is (model == "thinking")
    cut = AssistantMessage(text="", ids=so_far(answer))
    more = machine.ask([user("Hello"), cut], thinking=True)
    broken_off = so_far(more)
    assert broken_off is not None and more.reply.ids is not None
    assert broken_off.pauses == (4,) and broken_off.paused() == more.paused.ids
    assert more.reply.ids.unpack() == [*answer.reply.ids.unpack(), *more.ids]


def test_how_fast_it_comes_is_said_with_every_burst(loaded_of: LoadedOf) -> None:
    answer = Machine(loaded_of("hybrid")).ask([user("Hello")])
    bursts = [event for event in answer.events if isinstance(event, Generated)]
    stats = answer.finished.stats
    assert len(bursts) > 1
    assert {burst.ttft_s for burst in bursts} == {stats.ttft_s}
    assert bursts[0].decode_tokens_per_s is None
    assert all((burst.decode_tokens_per_s or 0) > 0 for burst in bursts[1:])


def ends_at(ids: Iterable[int]) -> int | None:
    """How many ids it takes until a loop is found."""
    detector = LoopDetector()
    return next((at for at, each in enumerate(ids, 1) if detector.push(each)), None)


def is_loop(ids: Sequence[int]) -> bool:
    """The definition, told slowly."""
    for period in range(1, LOOP_PERIOD + 1):
        last = ids[-max(LOOP_TOKENS, LOOP_TIMES * period) :]
        enough = len(last) == max(LOOP_TOKENS, LOOP_TIMES * period)
        if enough and all(a == b for a, b in zip(last, last[period:], strict=False)):
            return True
    return False


@pytest.mark.parametrize("period", [1, 2, 3, 63, 64, 65, 100, LOOP_PERIOD])
@pytest.mark.parametrize("before", [0, 1, 300])
def test_a_loop_is_found_at_the_token_that_makes_it_one(period: int, before: int) -> None:
    opening = list(range(10_000, 10_000 + before))
    ids = opening + list(range(period)) * (2 * LOOP_TOKENS + 2 * LOOP_TIMES)
    found = ends_at(ids)
    assert found == before + max(LOOP_TOKENS, LOOP_TIMES * period)
    assert is_loop(ids[:found]) and not is_loop(ids[: found - 1])


def test_a_loop_inside_a_loop_counts_by_its_own_length() -> None:
    """Of 1, 1, 1, 2 again and again the period is four, however often the 1 comes."""
    assert ends_at([1, 1, 1, 2] * LOOP_TOKENS) == LOOP_TOKENS


def rows(count: int, width: int, changes: bool) -> list[int]:
    """A table: equal rows, or such that differ in one number."""
    return [
        900 + row if changes and column == width // 2 else column
        for row in range(count)
        for column in range(width)
    ]


@pytest.mark.parametrize(
    "ids",
    [
        rows(2_000, 12, changes=True),
        rows(LOOP_TIMES - 1, LOOP_PERIOD, changes=False),
        rows(LOOP_TOKENS // 30, 30, changes=False),
        [each for row in range(40) for each in [7] * (LOOP_TOKENS - 1) + [row + 100]],
        [1, 2, 3] * (LOOP_TOKENS // 3),
        rows(100, LOOP_PERIOD + 1, changes=False),
    ],
    ids=["counting rows", "wide rows", "equal rows", "runs of zeros", "a short reply", "too long"],
)
def test_tables_and_short_replies_are_no_loops(ids: list[int]) -> None:
    assert ends_at(ids) is None


def test_the_detector_finds_what_the_definition_does() -> None:
    chance = random.Random(5)
    for _ in range(6):
        ids: list[int] = []
        while len(ids) < 3_000:
            piece = [chance.randrange(3) for _ in range(chance.choice([1, 2, 5, 40]))]
            ids += piece * chance.choice([1, 3, 2 * LOOP_TOKENS // len(piece)])
        found = ends_at(ids)
        assert found is not None and is_loop(ids[:found])
        assert not any(is_loop(ids[:at]) for at in range(found - 40, found))


UNBOUND = SamplingParams(temperature=0)
THINK, CLOSE = token_id("<think>"), token_id("</think>")
LETTERS = ReplyFormat(kind="regex", text="[a-z]*")
FORMAT, THOUGHT = 12, 20


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "FORMAT_TOKENS", FORMAT)
    monkeypatch.setattr(reply, "THOUGHT_TOKENS", THOUGHT)


@pytest.fixture
def short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 tokens with a period of at most 8 are a loop."""
    periods = reply._PERIODS
    monkeypatch.setattr(reply, "_ENOUGH", np.where(periods <= 8, 24, 10**9) - periods)


def ask(loaded: LoadedModel, said: list[int], **more: Any) -> Answer:
    asked = {"sampling": UNBOUND, "thinking": True, "draft": DraftSettings(mode="off"), **more}
    return Machine(loaded).ask([user("Hi")], say=list(said), **asked)


def letters(count: int) -> list[int]:
    """Ids of single letters that never repeat for long."""
    return [65 + (number * number) % 23 for number in range(count)]


@pytest.mark.usefixtures("low")
def test_a_formatted_reply_ends_at_its_default_length(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("hybrid")
    answer = ask(loaded, letters(60), format=LETTERS, thinking=False)
    assert (answer.finished.reason, len(answer.ids)) == ("format_length", FORMAT)
    free = ask(loaded, [*letters(40), token_id("<|im_end|>")], thinking=False)
    assert (free.finished.reason, len(free.ids)) == ("stop", 41)


@pytest.mark.usefixtures("low")
def test_a_thought_ends_at_its_default_length_with_and_without_a_format(
    loaded_of: LoadedOf,
) -> None:
    for form in (None, LETTERS):
        answer = ask(loaded_of("thinking"), letters(60), format=form)
        assert (answer.finished.reason, len(answer.ids)) == ("thought_length", THOUGHT)
        assert answer.reply.reasoning and not answer.reply.text


@pytest.mark.usefixtures("low")
def test_the_tokens_of_a_thought_are_none_of_the_answer(loaded_of: LoadedOf) -> None:
    said = [*letters(15), CLOSE, *letters(60)]
    answer = ask(loaded_of("thinking"), said, format=LETTERS)
    assert (answer.finished.reason, len(answer.ids)) == ("format_length", 16 + FORMAT)


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("most", [5, 40])
def test_the_users_own_limit_wins(loaded_of: LoadedOf, most: int) -> None:
    sampling = SamplingParams(temperature=0, max_tokens=most)
    for form, name in ((LETTERS, "hybrid"), (None, "thinking")):
        thinking = name == "thinking"
        answer = ask(
            loaded_of(name), letters(60), format=form, sampling=sampling, thinking=thinking
        )
        assert (answer.finished.reason, len(answer.ids)) == ("length", most)


@pytest.mark.usefixtures("low")
def test_a_reply_cut_off_at_its_default_length_is_continued(machine: Machine) -> None:
    asked: dict[str, Any] = {"sampling": UNBOUND, "format": LETTERS, "thinking": False}
    chat = [user("Hi")]
    begun = machine.ask(chat, say=letters(60), **asked)
    more = machine.ask([*chat, begun.reply], say=letters(60), **asked)
    assert more.finished.reason == "format_length" and len(more.ids) == FORMAT
    assert more.reply.text.startswith(begun.reply.text)


@pytest.mark.usefixtures("short_loops")
def test_a_loop_ends_formatted_replies_and_thoughts_and_no_others(loaded_of: LoadedOf) -> None:
    said = [70, 71, 72] * 20
    for form, name in ((LETTERS, "hybrid"), (None, "thinking"), (LETTERS, "thinking")):
        answer = ask(loaded_of(name), said, format=form, thinking=name == "thinking")
        assert answer.finished.reason == "repetition", name
        assert list(answer.ids) == said[:24], "no token before the end is another"
    free = ask(loaded_of("hybrid"), [*said, token_id("<|im_end|>")], thinking=False)
    assert (free.finished.reason, len(free.ids)) == ("stop", 61)


@pytest.mark.usefixtures("short_loops")
def test_a_loop_ends_where_it_does_without_drafts(loaded_of: LoadedOf) -> None:
    asked: dict[str, Any] = {"format": LETTERS, "thinking": False}
    said = [70, 71, 72] * 20
    plain = ask(loaded_of("hybrid"), list(said), **asked)
    drafted = ask(
        loaded_of("hybrid"), list(said), draft=DraftSettings(mode="lookup", tokens=7), **asked
    )
    assert drafted.finished.reason == plain.finished.reason == "repetition"
    assert drafted.ids == plain.ids


def test_a_reply_has_a_largest_size_continued_or_not(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "LONGEST_REPLY_BYTES", 30)
    machine = Machine(loaded_of("hybrid"))
    asked: dict[str, Any] = {"sampling": UNBOUND, "thinking": False}
    chat = [user("Hi")]
    begun = machine.ask(chat, say=letters(20), stop_after_tokens=20, **asked)
    assert begun.finished.reason == "cancelled"
    more = machine.ask([*chat, begun.reply], say=letters(60), **asked)
    assert (more.finished.reason, len(more.reply.text)) == ("size", 30)
    whole = machine.ask(chat, say=letters(60), **asked)
    assert (whole.finished.reason, len(whole.reply.text)) == ("size", 30)
    shown = "".join(each.answer for each in whole.events if isinstance(each, Generated))
    assert shown == whole.reply.text
