from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop.widgets.plain import LONGEST_LABEL, LONGEST_LINE, Button, Label, action, set_tip

pytestmark = pytest.mark.usefixtures("dressed")

MARKUP = "<b>Bold</b> &Words &lt;"


@pytest.mark.parametrize("wraps", [False, True])
def test_H1_a_label_shows_its_words_as_they_are(qtbot: QtBot, wraps: bool) -> None:
    label = Label(MARKUP, name="x", style="small", wraps=wraps, selectable=True)
    qtbot.addWidget(label)
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert label.text() == QLabel.text(label) == MARKUP
    label.setText("<img src=x>")
    assert label.textFormat() is Qt.TextFormat.PlainText


def test_a_label_lays_out_a_bounded_number_of_words(qtbot: QtBot) -> None:
    for wraps, most in ((False, LONGEST_LINE), (True, LONGEST_LABEL)):
        label = Label("word " * 100_000, wraps=wraps)
        qtbot.addWidget(label)
        assert len(QLabel.text(label)) == most
        assert len(label.text()) == 500_000


def test_a_long_word_makes_no_window_wide(qtbot: QtBot) -> None:
    label = Label("w" * 1_000, wraps=True)
    qtbot.addWidget(label)
    assert label.minimumSizeHint().width() < 400


def test_H1_a_buttons_words_hold_no_shortcut(qtbot: QtBot) -> None:
    button = Button(MARKUP)
    qtbot.addWidget(button)
    assert button.shortcut().isEmpty()
    spoken = QAccessible.queryAccessibleInterface(button).text(QAccessible.Text.Name)
    assert spoken == MARKUP
    button.set_words("&Other")
    assert button.shortcut().isEmpty()


def test_H1_a_menus_words_hold_no_shortcut(qtbot: QtBot) -> None:
    owner = QWidget()
    qtbot.addWidget(owner)
    done: list[bool] = []
    entry = action("&Words", owner, lambda: done.append(True))
    entry.trigger()
    assert entry.text() == "&&Words"
    assert done == [True]


def test_H1_a_tool_tip_is_text(qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    set_tip(widget, "words")
    assert widget.toolTip() == "words"
    set_tip(widget, "<b>words</b>")
    assert widget.toolTip() == "<p>&lt;b&gt;words&lt;/b&gt;</p>"
