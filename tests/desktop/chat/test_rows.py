"""Rows of the transcript and of the list: what a change of the path does to those on screen."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import get_args

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from core.api.chat import ReplyIds
from core.api.errors import EngineDiedError
from core.api.events import FinishReason, Generated
from core.api.stats import RequestStats
from desktop.chat.transcript import LiveReply, Row, Transcript, ending_text
from desktop.chats.chat_list import CHAT_ROLE, FORKED_ROLE, NOTE_ROLE, ChatList, TrashList, sections
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.store.tables.fields import LAST_MOMENT
from desktop.store.tables.records import Chat, Message, Reply, ReplyState
from tests.desktop.conftest import Loop
from tests.desktop.fake_engine import model_info


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
    made.show(
        1, [user(1), reply(2, first), user(3), reply(4, second), user(5), reply(6, live=live)]
    )
    assert made.last_answered() == (made.rows[3], second)
    live.stats = first
    assert made.last_answered() == (made.rows[5], first)
    made.show(2, [])
    assert made.last_answered() is None


def test_siblings() -> None:
    row = user(5, siblings=(3, 5, 9))
    assert (row.place, row.sibling(-1), row.sibling(1)) == (1, 3, 9)
    assert (user(3, siblings=(3, 5)).sibling(-1), user(5, siblings=(3, 5)).sibling(1)) == (
        None,
        None,
    )


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
    live = LiveReply(1, 1, reasoning="Half a thou", opening=opening, ids=[2, 3])
    kept = live.so_far(ReplyState.STOPPED).ids
    assert kept is not None
    assert (kept.unpack(), kept.tokenizer, kept.starts_in_reasoning) == ([1, 2, 3], "tok", True)
    unsaid = LiveReply(1, 1, text="Half", ids=[2, 3])
    assert unsaid.so_far(ReplyState.STOPPED).ids is None


def test_the_list_of_chats_is_a_proper_model(qloop: Loop) -> None:
    chats = ChatList()
    # Its warnings fail the test, as every Qt warning does.
    mode = QAbstractItemModelTester.FailureReportingMode.Warning
    QAbstractItemModelTester(chats, mode, chats)
    month = f"{datetime.fromtimestamp(0):%B %Y}"
    chats.show([Chat(7, "Old", 0, 0), Chat(9, "New", 1, 1, pinned=True)])
    assert [chats.index(at).data() for at in range(4)] == ["Pinned", "New", month, "Old"]
    assert [chats.index(at).data(CHAT_ROLE) for at in range(4)] == [None, 9, None, 7]
    assert [bool(chats.index(at).flags()) for at in range(4)] == [False, True, False, True]
    assert chats.index_of(7).row() == 3 and not chats.index_of(8).isValid()
    chats.set_busy(9, "Reading")
    assert chats.index(1).data().endswith("New")
    assert chats.index(1).data(Qt.ItemDataRole.AccessibleTextRole) == "New, Reading"
    assert chats.index(1).data(Qt.ItemDataRole.EditRole) == "New"
    chats.set_busy(9, "")
    assert chats.index(1).data() == "New"
    assert not chats.setData(chats.index(0), "Other")
    chats.search(" nE ")
    assert chats.rows == ["Pinned", chats.chats[1]] and not chats.index_of(7).isValid()
    # A title can be worked on while it is not shown.
    assert chats.place_of(7) == 0
    chats.search("nothing")
    assert chats.rowCount() == 0
    chats.search("")
    assert chats.rowCount() == 4
    chats.show([])
    assert chats.rowCount() == 0


def test_chats_are_parted_by_the_days_of_the_user() -> None:
    noon = datetime(2025, 3, 30, 12)  # in much of Europe, a day of 23 hours
    days = {1: noon, 2: noon - timedelta(hours=12), 3: noon - timedelta(hours=13)}
    days |= {
        4: noon - timedelta(hours=36),
        5: noon - timedelta(hours=37),
        6: noon + timedelta(days=3),
    }
    chats = [Chat(number, "", 0, day.timestamp()) for number, day in days.items()]
    parted = sections(chats, noon.timestamp())
    assert {head: [chat.id for chat in members] for head, members in parted.items()} == {
        "Today": [1, 2, 6],
        "Yesterday": [3, 4],
        "Last 7 days": [5],
    }


def test_older_chats_are_parted_by_their_months() -> None:
    noon = datetime(2025, 3, 10, 12)
    days = [7, 8, 9, 10, 40, 41, 400]
    chats = [
        Chat(number, "", 0, (noon - timedelta(days=number)).timestamp(), pinned=number == 41)
        for number in days
    ]
    parted = sections(chats, noon.timestamp())
    assert [(head, [chat.id for chat in members]) for head, members in parted.items()] == [
        ("Pinned", [41]),
        ("Last 7 days", [7]),
        ("March 2025", [8, 9]),
        ("February 2025", [10]),
        ("January 2025", [40]),
        ("February 2024", [400]),
    ]


def test_a_fork_is_said_where_its_icon_is_not_seen(qloop: Loop) -> None:
    chats = ChatList()
    chats.show([Chat(7, "Shapes", 0, 0, forked=True)])
    shown = chats.index(1)
    assert shown.data() == shown.data(Qt.ItemDataRole.EditRole) == "Shapes"
    assert shown.data(FORKED_ROLE)
    assert shown.data(Qt.ItemDataRole.AccessibleTextRole) == "Shapes, fork"


def test_the_trash_is_a_proper_model(qloop: Loop) -> None:
    trash = TrashList()
    mode = QAbstractItemModelTester.FailureReportingMode.Warning
    QAbstractItemModelTester(trash, mode, trash)
    day = datetime(2025, 3, 1, 12)
    trash.show([Chat(7, "Old", 0, 0, deleted=day.timestamp())])
    assert trash.index(0).data() == "Old" and trash.index(0).data(CHAT_ROLE) == 7
    assert trash.index(0).data(NOTE_ROLE) == "Kept until 31 March"
    # A moment that no calendar has, as damage leaves it.
    trash.show([Chat(7, "Old", 0, 0, deleted=LAST_MOMENT)])
    assert trash.index(0).data(NOTE_ROLE).startswith("Kept until ")
    trash.show([])
    assert trash.rowCount() == 0


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (EngineStatus(), "Starting the engine"),
        (EngineStatus(Phase.LOADING), "Loading the model"),
        (EngineStatus(Phase.LOADING, done=512, total=1024), "Loading the model: 50%"),
        (EngineStatus(Phase.READY, model_info()), "cpu, float32"),
        (EngineStatus(Phase.READY), "No model is loaded"),
        (EngineStatus(Phase.EMPTY), "No model is loaded"),
        (EngineStatus(Phase.RESTARTING), "The engine stopped; starting it again"),
        (EngineStatus(Phase.FAILED), "The engine does not start"),
        (EngineStatus(Phase.CLOSED), "Closing"),
    ],
)
def test_every_state_has_words(status: EngineStatus, words: str) -> None:
    assert status.words() == words
    assert "Waiting for" in status.waiting_words()
