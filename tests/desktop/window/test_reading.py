"""Screen readers, texts to select, and scripts from right to left."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QApplication, QLabel

from core.api.errors import InternalError
from desktop.app import App
from desktop.chat.markdown.block_text import BlockText
from desktop.window.chat_page import MOST_SPOKEN
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, send, type_in

HEBREW = "\u05e9\u05dc\u05d5\u05dd"


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []

    def hear(event: object) -> None:
        if isinstance(event, QAccessibleAnnouncementEvent):
            said.append(event.message())

    monkeypatch.setattr(QAccessible, "isActive", staticmethod(lambda: True))
    monkeypatch.setattr(QAccessible, "updateAccessibility", staticmethod(hear))
    return said


async def test_a_screen_reader_says_a_finished_reply_of_the_shown_chat(
    open_app: OpenApp, engine: FakeEngine, spoken: list[str]
) -> None:
    app: App = await open_app()
    (await send(app, engine, "Hello")).finish("A **bold** word.\n\n" + "so " * MOST_SPOKEN)
    await ended(app)
    (await send(app, engine, "And?")).fail(InternalError("It broke.").info())
    await ended(app)
    assert spoken[0].startswith("A bold word.") and len(spoken[0]) <= MOST_SPOKEN
    assert spoken[1:] == [f"{InternalError.title}. It broke."]
    other = await send(app, engine, "In the background")
    app.parts.chat.open(None)
    other.finish("Unheard.")
    await until(lambda: not app.parts.replies.live)
    assert len(spoken) == 2


async def test_sentences_are_selectable(app: App) -> None:
    app.window.side_panel.show_page(1)
    fixed = [
        label.objectName()
        for label in app.window.findChildren(QLabel)
        if label.wordWrap()
        and not label.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    ]
    assert fixed == []


async def test_scripts_from_right_to_left(app: App) -> None:
    option = app.window.page.composer.text.document().defaultTextOption
    type_in(app, f"{HEBREW}\nHello")
    assert option().alignment() == Qt.AlignmentFlag.AlignRight
    type_in(app, "Hello")
    assert option().alignment() == Qt.AlignmentFlag.AlignLeft


@pytest.mark.parametrize("form", ["{}, hello", "- {}", "1. {}", "# {}", "> {}"])
def test_each_paragraph_has_its_own_direction(dressed: QApplication, form: str) -> None:
    shown = BlockText()
    shown.show_markdown(form.format(HEBREW) + "\n\nHello")
    blocks, block = [], shown.document().firstBlock()
    while block.isValid():
        if block.text():
            blocks.append(block.textDirection())
        block = block.next()
    assert blocks == [Qt.LayoutDirection.RightToLeft, Qt.LayoutDirection.LeftToRight]
    assert ('class="quote to-left"' in shown._html) == form.startswith(">")
