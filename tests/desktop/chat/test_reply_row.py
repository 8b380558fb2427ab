from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from core.api.events import Generated
from core.api.stats import DraftCounts
from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.rows.reply_parts import NumbersLine, ReasoningFold
from desktop.chat.rows.reply_row import ReplyRow
from desktop.chat.rows.row_actions import RowActions
from desktop.chat.transcript import LiveReply, Row
from desktop.numbers import numbers_text
from desktop.store.tables.records import Message, Reply, ReplyState
from tests.desktop.hands import arrive, child, no_drafts, no_formats
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")


@pytest.fixture
def line(qtbot: QtBot) -> NumbersLine:
    widget = NumbersLine()
    qtbot.addWidget(widget)
    widget.show()
    return widget


def value(line: NumbersLine, name: str) -> QLabel:
    return child(line, QLabel, name)


def test_one_line_sums_up_the_reply(line: NumbersLine) -> None:
    line.show_stats(samples.second_turn())
    assert line.text() == numbers_text(samples.second_turn())
    # Nobody has asked for the rest yet, so it is not there.
    assert line.findChildren(QLabel) == [value(line, "numbersText")]


def test_a_line_without_room_is_left_out_and_comes_back(qtbot: QtBot) -> None:
    buttons = QLabel("m" * 20)
    beside = buttons.sizeHint().width()
    line = NumbersLine(buttons)
    qtbot.addWidget(line)
    line.show_stats(samples.second_turn())
    line.show()
    shown = []
    for width in (beside + 300, beside + 100, beside + 300):
        line.resize(width, 100)
        QApplication.processEvents()
        shown.append(value(line, "numbersText").isVisible())
    assert shown == [True, False, True]
    line.resize(beside + 100, 100)
    buttons.hide()
    line.fit()
    assert value(line, "numbersText").isVisible()


def test_the_button_opens_all_numbers(line: NumbersLine, qtbot: QtBot) -> None:
    line.show_stats(samples.long_chat())
    button = child(line, QToolButton, "numbersToggle")
    assert button.accessibleName() == "Show all numbers of this reply"
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert button.accessibleName() == "Hide all numbers of this reply"
    shown = {
        "numbersPromptTokens": "16,188",
        "numbersReused": "11,061",
        "numbersEvaluated": "5,127",
        "numbersImagesReused": "3",
        "numbersImagesEncoded": "1",
        "numbersRestoredFrom": "disk, up to token 11,061",
        "numbersFirstToken": "6.2 s",
        "numbersSpeed": "9.4 tokens/s",
        "numbersReplyTokens": "420",
    }
    assert {name: value(line, name).text() for name in shown} == shown
    assert all(value(line, name).isVisible() for name in shown)
    assert value(line, "numbersMiss").text().startswith("Read again from message 37")


def test_why_something_was_read_is_said_where_all_of_it_was_new(line: NumbersLine) -> None:
    line.show_stats(samples.long_chat())
    line.set_open(True)
    new = samples.second_turn()
    assert new.miss is None and new.evaluated_tokens > 0
    line.show_stats(new)
    assert value(line, "numbersMiss").text() == "all of it was new"
    line.show_stats(new.model_copy(update={"evaluated_tokens": 0}))
    assert value(line, "numbersMiss").text() == "nothing was read"


def test_what_drafts_saved_is_said_where_there_were_any(line: NumbersLine) -> None:
    counts = DraftCounts(cycles=20, drafted=31, accepted=22, empty=8, rejected=2)
    line.set_open(True)
    line.show_stats(samples.second_turn().model_copy(update={"draft": counts}))
    drafts = value(line, "numbersDrafts")
    assert drafts.isVisible()
    assert drafts.text().split(" \N{MIDDLE DOT} ") == [
        "22 of 31 guesses right", "2.1 tokens a step", "20 steps, 8 without a draft",
        "2 with no right guess",
    ]  # fmt: skip
    for none in (None, DraftCounts(cycles=20, empty=20)):
        line.show_stats(samples.second_turn().model_copy(update={"draft": none}))
        assert not drafts.isVisible()


def test_a_reply_says_which_model_wrote_it_and_when(line: NumbersLine) -> None:
    moment = datetime(2025, 3, 4, 15, 6).timestamp()
    line.show_stats(samples.second_turn(), "Qwen <b>3.5</b>", moment)
    told = QTextDocumentFragment.fromHtml(value(line, "numbersText").toolTip()).toPlainText()
    assert told == "Qwen <b>3.5</b> · 4 March 2025, 15:06"
    line.set_open(True)
    assert value(line, "numbersModel").text() == "Qwen <b>3.5</b>"
    assert value(line, "numbersTime").text() == "4 March 2025, 15:06"
    line.show_stats(samples.second_turn())
    assert not value(line, "numbersModel").isVisible()


def test_folded_reasoning_is_drawn_when_it_is_opened(qtbot: QtBot) -> None:
    fold = ReasoningFold()
    qtbot.addWidget(fold)
    fold.show()
    button = child(fold, QPushButton)
    fold.set_running(True)
    assert button.text() == "Thinking\N{HORIZONTAL ELLIPSIS}"
    fold.append("one ")
    assert fold.findChildren(MarkdownBody) == []
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    fold.append("*two*")
    body = child(fold, MarkdownBody)
    assert body.isVisible()
    assert body.text() == fold.text() == "one *two*"
    fold.set_running(False)
    assert button.text() == "Thought"
    block = child(body, BlockText)
    assert block.toPlainText() == "one two"
    fold.set_text("other")
    assert body.text() == fold.text() == "other"
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert not body.isVisible()


def test_text_that_arrived_and_is_not_shown_yet_is_shown_once(qtbot: QtBot) -> None:
    """The chat may be read again between an event and its turn to be shown."""
    message = Message(2, 1, 1, "", 0.0, reply=Reply(ReplyState.RUNNING))
    live = LiveReply.begun(message)
    row = ReplyRow(Row(message, live, last=True), no_formats(), RowActions(), no_drafts())
    qtbot.addWidget(row)
    arrive(live, "Hello ")
    live.take(Generated(request=1, answer="world."))
    row.show_row(Row(replace(message), live, last=True))
    live.show_arrived()
    body = child(row, MarkdownBody)
    assert body.text() == live.text == "Hello world."
