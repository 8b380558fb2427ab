from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QScrollArea,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.code_block import CodeText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import TextField, text_selection

pytestmark = pytest.mark.usefixtures("dressed")

REPLY = """# A heading

First paragraph with `code` in it.

- an item
- another \\(a_1*b*c_2\\)

```python
x = 1
y = 2
```

> quoted

The last paragraph.
"""
PARTS = [
    "A heading",
    "First paragraph with code in it.",
    "an item\nanother \\(a_1*b*c_2\\)",
    "x = 1\ny = 2",
    "quoted",
    "The last paragraph.",
]
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NO_KEY = Qt.KeyboardModifier.NoModifier
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton


class Page:
    """Two messages in a page that scrolls, and a field outside of them."""

    def __init__(self, qtbot: QtBot) -> None:
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.other = QLineEdit()
        self.first, self.second = MarkdownBody(), MarkdownBody()
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.addWidget(self.first)
        column.addWidget(self.second)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setWidget(inside)
        layout = QVBoxLayout(self.window)
        layout.addWidget(self.area)
        layout.addWidget(self.other)
        self.window.resize(600, 500)
        self.window.show()
        qtbot.waitExposed(self.window)
        self.show(REPLY)

    def show(self, first: str, second: str = "Another message.") -> None:
        self.first.set_text(first)
        self.second.set_text(second)
        while not self.first.is_drawn():
            QApplication.processEvents()
        QApplication.processEvents()

    @property
    def fields(self) -> list[TextField]:
        return fields_of(self.first)


def fields_of(body: MarkdownBody) -> list[TextField]:
    return [
        block if isinstance(block, BlockText) else block.findChildren(CodeText)[0]
        for block in body.blocks()
    ]


@pytest.fixture
def page(qtbot: QtBot) -> Iterator[Page]:
    yield Page(qtbot)
    text_selection().clear()
    QGuiApplication.clipboard().clear()


def point(field: TextField, position: int) -> QPoint:
    """The middle of the letter after a position."""
    cursor = field.textCursor()
    cursor.setPosition(position)
    return field.cursorRect(cursor).center() + QPoint(1, 0)


def move(field: TextField, at: QPoint) -> None:
    """The field in which the button was pressed gets it."""
    place = QPointF(at)
    everywhere = QPointF(field.viewport().mapToGlobal(at))
    event = QMouseEvent(QEvent.Type.MouseMove, place, everywhere, NONE, LEFT, NO_KEY)
    QApplication.sendEvent(field.viewport(), event)


def drag(begin: tuple[TextField, int], end: tuple[TextField, int]) -> None:
    first, last = begin[0], end[0]
    QTest.mousePress(first.viewport(), LEFT, pos=point(*begin))
    there = first.viewport().mapFromGlobal(last.viewport().mapToGlobal(point(*end)))
    move(first, (point(*begin) + there) / 2)
    move(first, there)
    QTest.mouseRelease(first.viewport(), LEFT, pos=there)


def copied(field: TextField) -> str:
    QGuiApplication.clipboard().clear()
    QTest.keyClick(field, Qt.Key.Key_C, CONTROL)
    return QGuiApplication.clipboard().text()


@pytest.mark.parametrize("step", [1, -1])
def test_dragging_goes_on_in_the_next_block(page: Page, step: int) -> None:
    fields = page.fields
    ends = [(fields[1], 6), (fields[3], 3)][::step]
    drag(*ends)
    assert copied(ends[0][0]) == "\n\n".join([PARTS[1][6:], PARTS[2], "x ="])


def test_dragging_back_gives_up_what_was_selected(page: Page) -> None:
    fields = page.fields
    QTest.mousePress(fields[1].viewport(), LEFT, pos=point(fields[1], 6))
    move(fields[1], QPoint(5, 150))
    assert fields[2].textCursor().hasSelection()
    move(fields[1], point(fields[1], 15))
    assert copied(fields[1]) == "paragraph"
    assert not fields[2].textCursor().hasSelection()


def test_select_all_takes_the_whole_message(page: Page) -> None:
    QGuiApplication.clipboard().setText("before")
    # Nothing is copied if nothing is selected.
    QTest.keyClick(page.fields[0], Qt.Key.Key_C, CONTROL)
    assert QGuiApplication.clipboard().text() == "before"
    for field in page.fields:
        QTest.keyClick(field, Qt.Key.Key_A, CONTROL)
        assert copied(field) == "\n\n".join(PARTS)
        text_selection().clear()


def test_dragging_ends_with_the_message(page: Page) -> None:
    drag((page.fields[5], 4), (fields_of(page.second)[0], 7))
    assert copied(page.fields[5]) == PARTS[5][4:]


def test_shift_and_a_click_extend_the_selection(page: Page) -> None:
    fields = page.fields
    QTest.mouseClick(fields[0].viewport(), LEFT, pos=point(fields[0], 2))
    QTest.mouseClick(fields[1].viewport(), LEFT, SHIFT, pos=point(fields[1], 5))
    assert copied(fields[1]) == "heading\n\nFirst"


def test_a_click_elsewhere_selects_nothing(page: Page) -> None:
    fields = page.fields
    page.window.activateWindow()
    for place in (fields[3].viewport(), fields_of(page.second)[0].viewport(), page.other):
        drag((fields[0], 2), (fields[2], 3))
        assert text_selection().text()
        QTest.mouseClick(place, LEFT, pos=QPoint(3, 5))
        assert text_selection().text() == ""
        assert not any(field.textCursor().hasSelection() for field in fields)


def test_a_selection_survives_what_is_streamed_after_it(page: Page) -> None:
    page.show("")
    page.first.append("First paragraph.\n\nSecond")
    QApplication.processEvents()
    fields = page.fields
    drag((fields[0], 6), (fields[1], 6))
    for piece in (" paragraph", " and **more**", ".\n\nThird.\n\n```\ncode"):
        page.first.append(piece)
        QApplication.processEvents()
    assert len(page.first.blocks()) == 4
    assert copied(fields[0]) == "paragraph.\n\nSecond"


def test_the_menu_copies_and_selects_all(page: Page, qtbot: QtBot) -> None:
    page.show(REPLY + "\nSee [there](https://example.org/a).")
    fields = page.fields

    def menu(field: TextField, at: QPoint) -> dict[str, QAction]:
        there = field.viewport().mapToGlobal(at)
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, there)
        QApplication.sendEvent(field.viewport(), event)
        found = [each for each in field.findChildren(QMenu) if each.isVisible()]
        return {each.text(): each for each in found[-1].actions() if each.isEnabled()}

    assert list(menu(fields[0], point(fields[0], 1))) == ["Select all"]
    menu(fields[0], point(fields[0], 1))["Select all"].trigger()
    chosen = menu(fields[3], point(fields[3], 1))
    assert list(chosen) == ["Copy", "Select all"]
    chosen["Copy"].trigger()
    assert QGuiApplication.clipboard().text() == "\n\n".join([*PARTS, "See there."])
    linked = menu(fields[6], point(fields[6], 5))
    linked["Copy link"].trigger()
    assert QGuiApplication.clipboard().text() == "https://example.org/a"


def test_the_page_scrolls_while_the_mouse_is_below_it(page: Page, qtbot: QtBot) -> None:
    page.show("\n\n".join(f"Paragraph {number}." for number in range(60)))
    fields = page.fields
    bar = page.area.verticalScrollBar()
    QTest.mousePress(fields[0].viewport(), LEFT, pos=point(fields[0], 10))
    below = page.area.viewport().mapToGlobal(QPoint(50, page.area.viewport().height() + 30))
    move(fields[0], fields[0].viewport().mapFromGlobal(below))
    qtbot.waitUntil(lambda: fields[59].textCursor().hasSelection())
    # The next message is no part of it.
    assert bar.value() < bar.maximum()
    QTest.mouseRelease(fields[0].viewport(), LEFT, pos=QPoint(50, 5))
    at = bar.value()
    QTest.qWait(100)
    assert bar.value() == at
    assert copied(fields[0]).startswith("0.\n\nParagraph 1.\n\nParagraph 2.")


def test_selecting_code_leaves_it_scrolled_as_it_was(page: Page) -> None:
    # An item that is nothing but code leaves no gap in what is copied.
    page.show("Before\n\n- ```\n  x\n  ```\n\nAfter")
    text_selection().select_all(page.fields[0])
    assert copied(page.fields[0]) == "Before\n\nx\n\nAfter"
    page.show("Before.\n\n```\n" + "wide " * 300 + "\n```\n\nAfter.")
    code = page.fields[1]
    assert isinstance(code, QPlainTextEdit)
    code.horizontalScrollBar().setValue(100)
    text_selection().select_all(page.fields[0])
    assert code.textCursor().hasSelection()
    assert code.horizontalScrollBar().value() == 100


def test_a_message_that_is_gone_is_forgotten(page: Page) -> None:
    text_selection().select_all(page.fields[0])
    page.first.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert text_selection().text() == ""
    text_selection().clear()
    assert isinstance(fields_of(page.second)[0], QTextEdit)
