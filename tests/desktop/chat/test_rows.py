from __future__ import annotations

from typing import get_args

import pytest

from core.api.chat import ReplyIds
from core.api.errors import EngineDiedError
from core.api.events import FinishReason, Generated
from core.api.stats import RequestStats
from desktop.chat.transcript import LiveReply, Row, Transcript, ending_text
from desktop.store.tables.records import Message, Reply, ReplyState
from tests.desktop.conftest import Loop


def user(number: int, text: str = "words", siblings: tuple[int, ...] = ()) -> Row:
    return Row(Message(number, 1, None, text, 0.0, siblings=siblings or (number,)))


def reply(number: int, stats: RequestStats | None = None, live: LiveReply | None = None) -> Row:
    done = Reply(ReplyState.COMPLETE, finish_reason="stop", stats=stats)
    return Row(Message(number, 1, number - 1, "answer", 0.0, reply=done), live)


@pytest.fixture
def transcript(qloop: Loop) -> tuple[Transcript, list[object]]:
    made = Transcript()
    told: list[object] = []
    made.chat_changed.connect(lambda: told.append("chat"))
    made.rows_replaced.connect(lambda at: told.append(("from", at)))
    made.row_changed.connect(lambda at: told.append(("row", at)))
    return made, told


def test_only_what_changed_is_told(transcript: tuple[Transcript, list[object]]) -> None:
    made, told = transcript
    rows = [user(1), reply(2), user(3), reply(4)]
    made.show(1, rows)
    made.show(1, list(rows))
    assert told == ["chat"]
    made.show(1, [*rows[:2], user(5), reply(6)])
    assert told[1:] == [("from", 2)]
    made.show(1, [*rows[:2], user(5, siblings=(3, 5)), reply(6)])
    assert told[2:] == [("row", 2)]
    made.show(1, rows[:1])
    assert told[3:] == [("from", 1)]
    made.show(2, rows[:1])
    assert told[4:] == ["chat"]


def test_what_arrives_is_handed_down_once(qloop: Loop) -> None:
    live, told = LiveReply(2, 1, text="A"), []
    live.grown.connect(lambda answer, reasoning: told.append((answer, reasoning)))
    live.take(Generated(request=1, answer="b", reasoning="x"))
    live.take(Generated(request=1, answer="c"))
    live.show_arrived()
    live.show_arrived()
    assert (live.text, live.reasoning, told) == ("Abc", "x", [("bc", "x")])


def test_the_last_numbers_are_those_of_the_newest_reply_that_has_any(
    transcript: tuple[Transcript, list[object]],
) -> None:
    made, _ = transcript
    first, second = RequestStats(prompt_tokens=1), RequestStats(prompt_tokens=2)
    live = LiveReply(6, 1)
    rows = [user(1), reply(2, first), user(3), reply(4, second), user(5), reply(6, live=live)]
    made.show(1, rows)
    assert made.last_answered() == (made.rows[3], second)
    live.stats = first
    assert made.last_answered() == (made.rows[5], first)
    made.show(2, [])
    assert made.last_answered() is None


def test_siblings() -> None:
    row = user(5, siblings=(3, 5, 9))
    assert (row.place, row.sibling(-1), row.sibling(1)) == (1, 3, 9)
    assert user(3, siblings=(3, 5)).sibling(-1) is user(5, siblings=(3, 5)).sibling(1) is None


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Reply(ReplyState.COMPLETE, finish_reason="stop"), ""),
        (Reply(ReplyState.STOPPED, finish_reason="cancelled"), "Stopped."),
        (Reply(ReplyState.STOPPED), "Stopped: Waymark was closed"),
        (Reply(ReplyState.RUNNING), ""),
        (Reply(ReplyState.COMPLETE, finish_reason="context"), "context is full"),
        (Reply(ReplyState.COMPLETE, finish_reason="length"), "Cut off"),
        (Reply(ReplyState.COMPLETE, finish_reason="format_length"), "after 2,048 tokens"),
        (Reply(ReplyState.COMPLETE, finish_reason="thought_length"), "after 16,384 tokens"),
        (Reply(ReplyState.COMPLETE, finish_reason="repetition"), "repeating the same"),
        (Reply(ReplyState.COMPLETE, finish_reason="size"), "4 MB"),
        (
            Reply(ReplyState.STOPPED, finish_reason="error", error=EngineDiedError("Bang.").info()),
            "The engine stopped. Bang.",
        ),
    ],
)
def test_how_a_reply_ended_is_said(ended: Reply, words: str) -> None:
    assert words in ending_text(ended)
    assert bool(words) == bool(ending_text(ended))


@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_every_end_but_one_is_said_and_most_replies_can_be_continued(reason: FinishReason) -> None:
    state = ReplyState.STOPPED if reason in ("cancelled", "error") else ReplyState.COMPLETE
    error = EngineDiedError("Bang.").info() if reason == "error" else None
    ended = Reply(state, finish_reason=reason, error=error)
    assert bool(ending_text(ended)) == (reason != "stop")
    row = Row(Message(2, 1, 1, "x", 0.0, reply=ended), last=True)
    # A reply of the largest size has no room for more.
    assert row.can_go_on == (reason not in ("stop", "size"))


def test_ids_that_have_arrived_are_kept_behind_what_the_reply_began_with() -> None:
    opening = ReplyIds.pack([1], "tok", starts_in_reasoning=True)
    live = LiveReply(1, 1, reply=Reply(ReplyState.RUNNING, "Half a thou", opening))
    live.ids = [2, 3]
    kept = live.so_far(ReplyState.STOPPED).ids
    assert kept is not None
    assert (kept.unpack(), kept.tokenizer, kept.starts_in_reasoning) == ([1, 2, 3], "tok", True)
    unsaid = LiveReply(1, 1, text="Half")
    unsaid.ids = [2, 3]
    assert unsaid.so_far(ReplyState.STOPPED).ids is None
