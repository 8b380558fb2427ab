from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from desktop.views.widgets.long_text import STEP, LongText

TEXTS = {
    "short": "a\nb",
    "lines": "x\n" * STEP,
    "one line": "\N{ROCKET}" * (3 * STEP),
    "words": "word \N{ROCKET} " * STEP,
    "mixed": ("a" * 250 + "\n\n" + "b c " * 100 + "\n") * 40,
    "ends": "a" * 100 + "\n",
}


@pytest.fixture
def field(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> LongText:
    monkeypatch.setattr(LongText, "longest_line", 100)
    widget = LongText()
    qtbot.addWidget(widget)
    widget.resize(300, 200)
    widget.show()
    return widget


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_comes_in_steps_and_is_whole_at_every_moment(
    field: LongText, qtbot: QtBot, name: str
) -> None:
    text = TEXTS[name]
    field.setPlainText(text)
    assert field.is_complete() == (field.document().characterCount() > len(text))
    assert field.document().characterCount() <= 2 * STEP + 1
    assert field.toPlainText() == text
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == text


@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_longer_than_the_field_can_lay_out(
    field: LongText, qtbot: QtBot, name: str
) -> None:
    field.setPlainText(TEXTS[name])
    qtbot.waitUntil(field.is_complete)
    block = field.document().begin()
    while block.isValid():
        assert block.length() <= 2 * 100 + 4  # a rocket counts twice for Qt
        block = block.next()


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_copied_is_what_was_put_in(field: LongText, qtbot: QtBot, name: str) -> None:
    field.setPlainText(TEXTS[name])
    qtbot.waitUntil(field.is_complete)
    field.selectAll()
    field.copy()
    assert QGuiApplication.clipboard().text() == TEXTS[name]
    QGuiApplication.clipboard().clear()


def test_what_is_put_in_one_after_another_stays_so(field: LongText, qtbot: QtBot) -> None:
    for letter in "abc":
        end = QTextCursor(field.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        field.put(letter * 2 * STEP, end)
    whole = "".join(letter * 2 * STEP for letter in "abc")
    assert field.toPlainText() == whole
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == whole


def test_a_line_that_grows_in_pieces_is_broken_too(field: LongText, qtbot: QtBot) -> None:
    for _ in range(100):
        end = QTextCursor(field.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        field.put("x" * 30, end)
    assert field.toPlainText() == "x" * 3_000
    assert field.blockCount() == 30


def test_what_is_typed_meanwhile_stays_where_it_was_typed(field: LongText, qtbot: QtBot) -> None:
    field.setPlainText("before after")
    cursor = field.textCursor()
    cursor.setPosition(7)
    field.setTextCursor(cursor)
    field.put("x" * 3 * STEP)
    assert not field.is_complete()
    field.moveCursor(QTextCursor.MoveOperation.Start)
    QTest.keyClicks(field, "typed ")
    field.put("y" * 2 * STEP)
    whole = "typed " + "y" * 2 * STEP + "before " + "x" * 3 * STEP + "after"
    assert field.toPlainText() == whole
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == whole


def test_another_text_takes_the_place_of_one_that_is_coming_in(
    field: LongText, qtbot: QtBot
) -> None:
    field.setPlainText("x" * 3 * STEP)
    field.setPlainText("other")
    assert field.toPlainText() == "other"
    qtbot.wait(5)
    assert field.toPlainText() == "other"


def test_what_came_in_steps_is_undone_at_once(field: LongText, qtbot: QtBot) -> None:
    field.setPlainText("")
    QTest.keyClicks(field, "typed")
    field.put("x " * 2 * STEP)
    qtbot.waitUntil(field.is_complete)
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == "typed"
    QTest.keyClick(field, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText().endswith("x " * 2 * STEP)


@pytest.mark.parametrize("text", ["a draft", "x" * 3 * STEP])
def test_a_text_that_was_set_is_not_undone(field: LongText, qtbot: QtBot, text: str) -> None:
    field.setPlainText(text)
    qtbot.waitUntil(field.is_complete)
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == text


def test_undone_and_deleted_ends_of_lines_that_are_none_come_back_as_none(
    field: LongText, qtbot: QtBot
) -> None:
    text = "word " * 100
    field.setPlainText(text)
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert field.toPlainText() == ""
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == text
