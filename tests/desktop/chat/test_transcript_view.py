from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from core.api.stats import RequestStats
from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import text_selection
from desktop.chat.rows.reply_row import ReplyRow
from desktop.chat.rows.row_widgets import RowPlaces, RowWidget
from desktop.chat.rows.transcript_view import BUILT_AT_ONCE, TranscriptView
from desktop.chat.rows.user_row import UserRow
from desktop.chat.transcript import LiveReply, Row, Transcript
from desktop.store.tables.records import Message, Reply, ReplyState
from desktop.widgets.pacing import pace
from desktop.window.sides import move_focus
from tests.desktop.hands import arrive, child, no_drafts, no_formats

MakeView = Callable[..., TranscriptView]


def row(number: int, text: str = "") -> Row:
    """A question at an even number, a reply at an odd one."""
    stats = RequestStats(prompt_tokens=10, evaluated_tokens=10)
    ended = Reply(state=ReplyState.COMPLETE, reasoning="Hm.", finish_reason="stop", stats=stats)
    words = text or f"words of message {number}, " * (3 + 7 * (number % 5))
    message = Message(
        id=number + 1,
        chat=1,
        parent=number or None,
        text=words,
        created=0.0,
        reply=ended if number % 2 else None,
        siblings=(number + 1,),
    )
    return Row(message)


@pytest.fixture
def make_view(qtbot: QtBot) -> MakeView:
    def make(count: int, *last: str, rests: bool = True) -> TranscriptView:
        transcript = Transcript()
        view = TranscriptView(transcript, no_drafts(), no_formats())
        qtbot.addWidget(view)
        view.resize(700, 600)
        view.show()
        # A message with the focus would stay.
        view.setFocus()
        rows = [row(number) for number in range(count)]
        rows += [row(count + more, text) for more, text in enumerate(last)]
        transcript.show(1, rows)
        if rests:
            rest()
        return view

    return make


def rest() -> None:
    end = time.monotonic() + 60
    for _ in range(3):
        while pace().is_busy():
            assert time.monotonic() < end
            QTest.qWait(1)
        QTest.qWait(5)


def places(view: TranscriptView) -> list[int]:
    return [widget.row.id - 1 for widget in view.row_widgets]


def seen(view: TranscriptView) -> list[RowWidget]:
    area = view.viewport().rect()
    return [widget for widget in view.row_widgets if widget.geometry().intersects(area)]


def gaps(view: TranscriptView) -> set[int]:
    rows = view.row_widgets
    return {
        below.y() - above.geometry().bottom() - 1
        for above, below in pairwise(rows)
        if below.row.id == above.row.id + 1
    }


def test_a_long_chat_is_built_from_its_end(make_view: MakeView) -> None:
    view = make_view(2_000, rests=False)
    assert places(view) == list(range(2_000 - BUILT_AT_ONCE, 2_000))
    rest()
    assert places(view)[-1] == 1_999
    assert len(view.row_widgets) < 40
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum() > 100_000
    assert seen(view)[-1].geometry().bottom() < view.viewport().height()


@pytest.mark.parametrize("share", [0.0, 0.31, 0.97])
def test_wherever_one_scrolls_messages_are_there(make_view: MakeView, share: float) -> None:
    view = make_view(2_000)
    bar = view.verticalScrollBar()
    bar.setValue(int(share * bar.maximum()))
    rest()
    shown = seen(view)
    assert shown[0].y() <= 16 and shown[-1].geometry().bottom() >= view.viewport().height() - 1
    assert places(view) == list(range(places(view)[0], places(view)[-1] + 1))
    assert gaps(view) == {4}
    assert len(view.row_widgets) < 60


def test_what_is_looked_at_stays_while_others_are_built(make_view: MakeView) -> None:
    view = make_view(400)
    bar = view.verticalScrollBar()
    for _ in range(30):
        bar.setValue(bar.value() - 150)
        first = seen(view)[0]
        before = first.y()
        rest()
        assert first.y() == before
    assert not view.follows


def test_a_reply_that_grows_above_moves_nothing(make_view: MakeView) -> None:
    view = make_view(40)
    bar = view.verticalScrollBar()
    bar.setValue(bar.maximum() - 900)
    rest()
    first = seen(view)[0]
    above = next(widget for widget in view.row_widgets if widget.row.id == first.row.id - 1)
    before = first.y()
    above.show_row(row(above.row.id - 1, "longer words\n\n" * 50))
    rest()
    assert first.y() == before


def test_the_end_is_followed_only_by_who_is_there(make_view: MakeView) -> None:
    view = make_view(20)
    bar = view.verticalScrollBar()
    transcript = view._transcript
    live = LiveReply(message=20, chat=1, text="words")
    transcript.update(Row(row(19).message, live))
    for follows in (True, False):
        if not follows:
            bar.setValue(bar.maximum() - 400)
        before = (bar.value(), bar.maximum())
        arrive(live, "words\n\n" * 40)
        rest()
        assert bar.maximum() > before[1]
        assert bar.value() == (bar.maximum() if follows else before[0])


def test_what_was_unfolded_is_so_again(make_view: MakeView) -> None:
    view = make_view(200)
    last = view.row_widgets[-1]
    assert isinstance(last, ReplyRow)
    last._reasoning.set_open(True)
    last._numbers.set_open(True)
    last._body.show_pages(2)
    rest()
    view.verticalScrollBar().setValue(0)
    rest()
    assert places(view)[0] == 0 and places(view)[-1] < 100
    view.scroll_to_end()
    rest()
    again = view.row_widgets[-1]
    assert isinstance(again, ReplyRow) and again is not last
    assert again._reasoning.is_open() and again._numbers.is_open() and again._body.pages() == 2


def test_a_message_being_edited_stays(make_view: MakeView) -> None:
    view = make_view(200)
    question = view.row_widgets[-2]
    assert isinstance(question, UserRow)
    question.edit()
    view.verticalScrollBar().setValue(0)
    rest()
    assert question in view.row_widgets
    assert question.is_busy()


def test_a_message_with_selected_text_stays(make_view: MakeView) -> None:
    view = make_view(200, "question", "First.\n\nSecond.")
    body = child(view.row_widgets[-1], MarkdownBody)
    block = body.blocks()[0]
    assert isinstance(block, BlockText)
    text_selection().select_all(block)
    view.verticalScrollBar().setValue(0)
    rest()
    assert view.row_widgets[-1].isAncestorOf(body)
    assert text_selection().text() == "First.\n\nSecond."
    # A click between the messages.
    at, key = QPointF(3, 3), Qt.KeyboardModifier.NoModifier
    kind, buttons = QEvent.Type.MouseButtonPress, Qt.MouseButton
    for button, left in ((buttons.RightButton, "First.\n\nSecond."), (buttons.LeftButton, "")):
        QApplication.sendEvent(view.viewport(), QMouseEvent(kind, at, at, button, button, key))
        assert text_selection().text() == left
    view.verticalScrollBar().setValue(1_000)
    rest()
    assert places(view)[-1] < 100


def test_another_width_lays_out_what_is_there(make_view: MakeView) -> None:
    view = make_view(100)
    bar = view.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    rest()
    first = seen(view)[0]
    view.resize(480, 600)
    rest()
    assert {widget.width() for widget in view.row_widgets} == {view.width() - 2 * 24}
    assert gaps(view) == {4}
    assert first in seen(view)
    for widget in view.row_widgets:
        if widget.hasHeightForWidth():
            assert widget.height() == widget.heightForWidth(widget.width())


def test_a_few_messages_stand_at_the_top(make_view: MakeView) -> None:
    view = make_view(1, "Yes.")
    assert view.row_widgets[0].mapTo(view, QPoint(0, 0)).y() == 16
    assert view.verticalScrollBar().maximum() == 0


def test_messages_replaced_are_built_anew(make_view: MakeView) -> None:
    view = make_view(50)
    kept = view.row_widgets[0]
    rows = [row(number) for number in range(48)] + [row(60, "other"), row(61, "words")]
    view._transcript.show(1, rows)
    assert [widget.row.text for widget in view.row_widgets[-2:]] == ["other", "words"]
    rest()
    assert kept in view.row_widgets
    view._transcript.show(2, [])
    assert view.row_widgets == []
    assert view.verticalScrollBar().maximum() == 0


def test_messages_are_in_their_order_for_tab_and_for_screen_readers(make_view: MakeView) -> None:
    view = make_view(200)
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    view.activateWindow()
    rest()
    places = {id(widget): place for place, widget in enumerate(view.row_widgets)}
    children = [places[id(each)] for each in view.viewport().children() if id(each) in places]
    assert children == sorted(children)
    reached: list[int] = []
    stops = view.row_widgets[0].findChildren(QPushButton) + view.row_widgets[0].findChildren(
        QToolButton
    )
    next(each for each in stops if each.isVisible() and each.isEnabled()).setFocus()
    for _ in range(40):
        assert move_focus(view, forward=True)
        focused = QApplication.focusWidget()
        assert focused is not None
        row = next((each for each in view.row_widgets if each.isAncestorOf(focused)), None)
        if row is None:
            break
        reached.append(places.get(id(row), -1))
    assert len(set(reached)) > 3 and reached == sorted(reached)


def test_rows_are_one_below_the_other() -> None:
    assert RowPlaces(4).between(0, 500) == range(0)
    rows = RowPlaces(gap=4)
    rows.replace_from(0, [10, 20, 30])
    assert [rows.top(place) for place in range(3)] == [0, 14, 38]
    assert (len(rows), rows.total()) == (3, 68)
    at = {-5: 0, 0: 0, 13: 0, 14: 1, 37: 1, 38: 2, 68: 2, 900: 2}
    assert {y: rows.at(y) for y in at} == at
    assert (rows.between(12, 15), rows.between(-50, 500)) == (range(2), range(3))
    rows.set_height(1, 100)
    assert (rows.height(1), rows.top(2), rows.total()) == (100, 118, 148)
    rows.replace_from(1, [5])
    assert (len(rows), rows.top(1), rows.total()) == (2, 14, 19)
    rows.replace_from(0, [])
    assert (len(rows), rows.total()) == (0, 0)


def test_a_row_that_has_left_no_longer_grows(make_view: MakeView) -> None:
    view = make_view(2)
    live = LiveReply(message=2, chat=1, text="words\n\n" * 100)
    view._transcript.update(Row(row(1).message, live))
    rest()
    view._transcript.show(2, [])
    leaving = view.messages._leaving
    while len(leaving) > 1:
        view.messages._take_apart()
    assert view.messages._take_apart()
    arrive(live, "more\n\n" * 10)
    rest()
    assert leaving == []
