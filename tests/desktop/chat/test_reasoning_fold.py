from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.reply_row import ReasoningFold

pytestmark = pytest.mark.usefixtures("dressed")


@pytest.fixture
def fold(qtbot: QtBot) -> ReasoningFold:
    widget = ReasoningFold()
    qtbot.addWidget(widget)
    widget.show()
    return widget


def button(fold: ReasoningFold) -> QPushButton:
    found = fold.findChild(QPushButton)
    assert isinstance(found, QPushButton)
    return found


def test_it_says_whether_the_model_thinks(fold: ReasoningFold) -> None:
    fold.set_running(True)
    assert button(fold).text() == "Thinking…"
    fold.set_running(False)
    assert button(fold).text() == "Thought"


def test_what_is_folded_is_not_drawn(fold: ReasoningFold) -> None:
    fold.set_running(True)
    fold.append("one ")
    fold.append("two")
    assert fold.findChildren(MarkdownBody) == []
    assert fold.text() == "one two"


def test_the_button_opens_and_closes_it(fold: ReasoningFold, qtbot: QtBot) -> None:
    fold.set_text("some *words*")
    QTest.mouseClick(button(fold), Qt.MouseButton.LeftButton)
    body = fold.findChild(MarkdownBody)
    assert isinstance(body, MarkdownBody)
    assert body.isVisible()
    block = body.findChild(BlockText)
    assert isinstance(block, BlockText)
    assert block.toPlainText() == "some words"
    QTest.keyClick(button(fold), Qt.Key.Key_Space)
    assert not body.isVisible()


def test_what_comes_while_it_is_open_is_shown(fold: ReasoningFold) -> None:
    fold.set_running(True)
    fold.append("one ")
    fold.set_open(True)
    fold.append("two")
    body = fold.findChild(MarkdownBody)
    assert isinstance(body, MarkdownBody)
    assert body.text() == fold.text() == "one two"
    fold.set_text("other")
    assert body.text() == fold.text() == "other"
