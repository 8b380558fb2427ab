"""Where a reply ends that neither the model nor the user has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.api.events import Generated
from core.api.params import DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.engine.loaded import LoadedModel
from core.engine.writing import reply
from tests.oracle.checkpoints import token_id
from tests.promises.machine import Answer, Machine, user

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
def test_a_formatted_reply_ends_at_its_default_length(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    loaded = loaded_of("hybrid")
    answer = ask(loaded, letters(60), format=LETTERS, thinking=False)
    assert (answer.finished.reason, len(answer.ids)) == ("format_length", FORMAT)
    free = ask(loaded, [*letters(40), token_id("<|im_end|>")], thinking=False)
    assert (free.finished.reason, len(free.ids)) == ("stop", 41)


@pytest.mark.usefixtures("low")
def test_a_thought_ends_at_its_default_length_with_and_without_a_format(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    for form in (None, LETTERS):
        answer = ask(loaded_of("thinking"), letters(60), format=form)
        assert (answer.finished.reason, len(answer.ids)) == ("thought_length", THOUGHT)
        assert answer.reply.reasoning and not answer.reply.text


@pytest.mark.usefixtures("low")
def test_the_tokens_of_a_thought_are_none_of_the_answer(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    said = [*letters(15), CLOSE, *letters(60)]
    answer = ask(loaded_of("thinking"), said, format=LETTERS)
    assert (answer.finished.reason, len(answer.ids)) == ("format_length", 16 + FORMAT)


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("most", [5, 40])
def test_the_users_own_limit_wins(loaded_of: Callable[..., LoadedModel], most: int) -> None:
    sampling = SamplingParams(temperature=0, max_tokens=most)
    for form, name in ((LETTERS, "hybrid"), (None, "thinking")):
        thinking = name == "thinking"
        answer = ask(
            loaded_of(name), letters(60), format=form, sampling=sampling, thinking=thinking
        )
        assert (answer.finished.reason, len(answer.ids)) == ("length", most)


@pytest.mark.usefixtures("low")
def test_a_reply_cut_off_at_its_default_length_is_continued(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    machine = Machine(loaded_of("hybrid"))
    asked: dict[str, Any] = {"sampling": UNBOUND, "format": LETTERS, "thinking": False}
    chat = [user("Hi")]
    begun = machine.ask(chat, say=letters(60), **asked)
    more = machine.ask([*chat, begun.reply], say=letters(60), **asked)
    assert more.finished.reason == "format_length" and len(more.ids) == FORMAT
    assert more.reply.text.startswith(begun.reply.text)


@pytest.mark.usefixtures("short_loops")
def test_a_loop_ends_formatted_replies_and_thoughts_and_no_others(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    said = [70, 71, 72] * 20
    for form, name in ((LETTERS, "hybrid"), (None, "thinking"), (LETTERS, "thinking")):
        answer = ask(loaded_of(name), said, format=form, thinking=name == "thinking")
        assert answer.finished.reason == "repetition", name
        assert list(answer.ids) == said[:24], "no token before the end is another"
    free = ask(loaded_of("hybrid"), [*said, token_id("<|im_end|>")], thinking=False)
    assert (free.finished.reason, len(free.ids)) == ("stop", 61)


@pytest.mark.usefixtures("short_loops")
def test_a_loop_ends_where_it_does_without_drafts(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    asked: dict[str, Any] = {"format": LETTERS, "thinking": False}
    said = [70, 71, 72] * 20
    plain = ask(loaded_of("hybrid"), list(said), **asked)
    drafted = ask(
        loaded_of("hybrid"), list(said), draft=DraftSettings(mode="lookup", tokens=7), **asked
    )
    assert drafted.finished.reason == plain.finished.reason == "repetition"
    assert drafted.ids == plain.ids


def test_a_reply_has_a_largest_size_continued_or_not(
    loaded_of: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
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
