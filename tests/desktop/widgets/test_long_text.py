from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from desktop.widgets.long_text import MOST_LINES, STEP, LongText

pytestmark = pytest.mark.usefixtures("dressed")

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
def test_a_text_arrives_in_steps_in_bounded_lines_and_is_always_whole(
    field: LongText, qtbot: QtBot, name: str
) -> None:
    text = TEXTS[name]
    field.setPlainText(text)
    assert field.is_complete() == (field.document().characterCount() > len(text))
    assert field.document().characterCount() <= 2 * STEP + 1
    assert field.toPlainText() == text
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == text
    block = field.document().begin()
    while block.isValid():
        assert block.length() <= 2 * 100 + 4  # a rocket counts twice for Qt
        block = block.next()
    field.selectAll()
    field.copy()
    assert QGuiApplication.clipboard().text() == text
    QGuiApplication.clipboard().clear()


def test_no_slot_finds_the_first_piece_of_a_text_complete(field: LongText, qtbot: QtBot) -> None:
    field.setPlainText("before")
    text, found = TEXTS["words"], list[tuple[bool, bool]]()
    field.textChanged.connect(
        lambda: found.append((field.is_complete(), field.toPlainText() == text))
    )
    field.setPlainText(text)
    assert found == [(False, True)]
    qtbot.waitUntil(field.is_complete)
    assert found[-1] == (True, True)
    assert field.toPlainText() == text


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


def place_cursor(field: LongText, position: int) -> None:
    cursor = field.textCursor()
    cursor.setPosition(position)
    field.setTextCursor(cursor)


def test_two_texts_that_come_in_at_once_stand_where_they_were_put(
    field: LongText, qtbot: QtBot
) -> None:
    field.setPlainText("before after")
    place_cursor(field, 7)
    field.put("x" * 3 * STEP)
    assert not field.is_complete()
    field.moveCursor(QTextCursor.MoveOperation.Start)
    field.put("y" * 2 * STEP)
    whole = "y" * 2 * STEP + "before " + "x" * 3 * STEP + "after"
    assert field.toPlainText() == whole
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == whole


@pytest.mark.parametrize("way", ["pasted", "set"])
def test_what_is_typed_meanwhile_stands_behind_all_of_it(
    field: LongText, qtbot: QtBot, way: str
) -> None:
    text = "word " * 3 * STEP
    if way == "pasted":
        field.take_text(text)
    else:
        field.setPlainText(text)
        field.moveCursor(QTextCursor.MoveOperation.End)
    assert not field.is_complete()
    QTest.keyClicks(field, "QUESTION")
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == text + "QUESTION"


def test_undoing_while_a_text_comes_in_undoes_all_of_it(field: LongText, qtbot: QtBot) -> None:
    QTest.keyClicks(field, "typed")
    field.take_text("x " * 3 * STEP)
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == "typed"


def test_the_end_of_what_was_pasted_is_seen(field: LongText, qtbot: QtBot) -> None:
    field.take_text("line\n" * 3 * STEP)
    qtbot.waitUntil(field.is_complete)
    assert field.viewport().rect().contains(field.cursorRect())


@pytest.mark.parametrize("end", ["\r\n", "\r", "\u2029"])
@pytest.mark.parametrize("way", ["pasted", "set"])
def test_every_end_of_a_line_is_one_wherever_a_step_ends(
    field: LongText, qtbot: QtBot, end: str, way: str
) -> None:
    field.longest_line = 10 * STEP
    text = "b" * (STEP - 1) + end + "c" * 10
    (field.take_text if way == "pasted" else field.setPlainText)(text)
    qtbot.waitUntil(field.is_complete)
    assert field.toPlainText() == text.replace(end, "\n")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2029"])
def test_too_many_lines_are_refused_however_they_end(field: LongText, end: str) -> None:
    said: list[str] = []
    field.refused.connect(said.append)
    field.take_text(f"a{end}" * MOST_LINES)
    assert len(said) == 1 and field.toPlainText() == ""


BREAK = 100


@pytest.mark.parametrize(
    ("at", "key", "expected"),
    [
        (BREAK, Qt.Key.Key_Delete, "a" * 100 + "b" * 49),
        (BREAK + 4, Qt.Key.Key_Delete, "a" * 100 + "b" * 49),
        (BREAK, Qt.Key.Key_Backspace, "a" * 99 + "b" * 50),
        (BREAK + 4, Qt.Key.Key_Backspace, "a" * 99 + "b" * 50),
        (BREAK, Qt.Key.Key_X, "a" * 100 + "x" + "b" * 50),
        (BREAK + 4, Qt.Key.Key_X, "a" * 100 + "x" + "b" * 50),
        (BREAK, Qt.Key.Key_Return, "a" * 100 + "\n" + "b" * 50),
        (BREAK + 4, Qt.Key.Key_Return, "a" * 100 + "\n" + "b" * 50),
    ],
)
def test_a_break_is_one_place_for_whoever_writes(
    field: LongText, at: int, key: Qt.Key, expected: str
) -> None:
    field.setPlainText("a" * 100 + "b" * 50)
    place_cursor(field, at)
    QTest.keyClick(field, key)
    assert field.toPlainText() == expected
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == "a" * 100 + "b" * 50


@pytest.mark.parametrize("inside", [1, 2, 3])
def test_the_cursor_never_stands_inside_a_break(field: LongText, inside: int) -> None:
    field.setPlainText("a" * 100 + "b" * 50)
    place_cursor(field, BREAK + inside)
    QTest.keyClicks(field, "X")
    assert field.toPlainText() == "a" * 100 + "X" + "b" * 50


def test_it_is_walked_over_both_ways(field: LongText) -> None:
    field.setPlainText("a" * 100 + "b" * 50)
    place_cursor(field, BREAK)
    QTest.keyClick(field, Qt.Key.Key_Right)
    assert field.textCursor().position() == BREAK + 4
    QTest.keyClick(field, Qt.Key.Key_Left)
    assert field.textCursor().position() == BREAK


def test_what_is_selected_up_to_a_break_is_copied_without_it(field: LongText) -> None:
    field.setPlainText("a" * 100 + "b" * 50)
    place_cursor(field, 0)
    QTest.keyClick(field, Qt.Key.Key_End, Qt.KeyboardModifier.ShiftModifier)
    field.moveCursor(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
    field.copy()
    assert QGuiApplication.clipboard().text() == "a" * 100
    QGuiApplication.clipboard().clear()
    field.cut()
    assert field.toPlainText() == "b" * 50
    QGuiApplication.clipboard().clear()


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


def test_text_that_was_deleted_or_pasted_over_comes_back(field: LongText, qtbot: QtBot) -> None:
    text = "word " * 100
    field.setPlainText(text)
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert field.toPlainText() == ""
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == text
    field.selectAll()
    field.take_text("X")
    assert field.toPlainText() == "X"
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == text
