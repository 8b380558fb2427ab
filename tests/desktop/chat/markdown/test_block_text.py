from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSize, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTextBrowser, QWidget
from pytestqt.qtbot import QtBot

from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import TextOwner
from tests.desktop.bait import Bait
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")


class Owner(TextOwner):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open_link(self, address: str) -> None:
        self.opened.append(address)


class OwnedBlock(BlockText):
    def __init__(self, owner: Owner) -> None:
        super().__init__(owner)
        self.owner = owner


@pytest.fixture
def block(qtbot: QtBot) -> OwnedBlock:
    owner = Owner()
    qtbot.addWidget(owner)
    owner.resize(1000, 600)
    owner.show()
    widget = OwnedBlock(owner)
    widget.resize(300, 10)
    widget.show()
    return widget


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Bait]:
    with Bait(tmp_path / "bait.png", samples.png(samples.landscape(8, 8))) as watched:
        yield watched


def test_the_bait_works(qtbot: QtBot, bait: Bait) -> None:
    # Without this, the tests below could pass for want of a picture that anyone would load.
    browser = QTextBrowser()
    qtbot.addWidget(browser)
    browser.setMarkdown(f"![x]({bait.path.as_uri()})")
    browser.show()
    browser.grab()
    assert bait.opened


@pytest.mark.parametrize(
    "source",
    [
        "![x](FILE)",
        "![x](file://FILE)",
        "![x](<file:FILE>)",
        "[![x](FILE)](file://FILE)",
        '<img src="FILE">',
        '<link rel="stylesheet" href="file://FILE">',
        "[x]: FILE\n\n![x][x]",
        "| ![x](FILE) |\n|--|\n",
        "- ![x](FILE)\n\n> ![x](FILE)",
    ],
)
def test_no_words_of_the_model_open_a_file(qtbot: QtBot, bait: Bait, source: str) -> None:
    body = MarkdownBody()
    qtbot.addWidget(body)
    body.set_text(source.replace("FILE", str(bait.path)))
    body.show()
    body.grab()
    assert not bait.opened


def test_even_a_picture_in_the_document_is_not_loaded(block: BlockText, bait: Bait) -> None:
    # Nor is a data address decoded, as Qt does by itself.
    for address in (str(bait.path), bait.path.as_uri(), "data:text/plain,words"):
        block.setHtml(f'<img src="{address}"><link rel="stylesheet" href="{address}">')
        block.grab()
        kind = QTextDocument.ResourceType.ImageResource.value
        assert block.document().resource(kind, QUrl(address)).size() == QSize(1, 1)
    assert not bait.opened


def link_place(block: BlockText) -> QPoint:
    rows = range(0, block.height(), 3)
    points = [QPoint(x, y) for y in rows for x in range(0, block.width(), 3)]
    linked = [point for point in points if block.anchorAt(point)]
    return linked[len(linked) // 2]


def test_a_link_is_only_told_of_and_its_address_is_shown(block: OwnedBlock, qtbot: QtBot) -> None:
    block.show_markdown("[words](https://example.org/a?b=c%20d)")
    QTest.mouseMove(block.viewport(), link_place(block))
    qtbot.waitUntil(lambda: block.toolTip() == "https://example.org/a?b=c%20d")
    QTest.mouseClick(block.viewport(), Qt.MouseButton.LeftButton, pos=link_place(block))
    assert block.owner.opened == ["https://example.org/a?b=c%20d"]
    assert block.toPlainText() == "words"
    assert block.source() == QUrl()


def test_other_addresses_are_never_told_of(block: OwnedBlock) -> None:
    # Such a link cannot come from Markdown; put there by force, it still leads nowhere.
    block.setHtml('<a href="file:///etc/passwd">words</a>')
    QTest.mouseClick(block.viewport(), Qt.MouseButton.LeftButton, pos=link_place(block))
    assert block.owner.opened == []


def test_words_are_selected_by_keyboard_and_not_changed(block: BlockText) -> None:
    block.show_markdown("some **words**")
    block.setFocus()
    QTest.keyClicks(block, "more")
    assert block.toPlainText() == "some words"
    QTest.keyClick(block, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(block, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "some words"


def test_the_height_follows_the_width(block: BlockText) -> None:
    block.show_markdown("words " * 100)
    narrow = block.height()
    assert narrow >= block.document().size().height()
    block.resize(900, block.height())
    assert block.document().size().height() <= block.height() < narrow / 2


@pytest.mark.parametrize("source", ["word " * 200, "w" * 3_000, "| " + "wide " * 30 + "|\n|--|\n"])
def test_nothing_has_to_be_scrolled(block: BlockText, source: str) -> None:
    block.show_markdown(source)
    assert block.verticalScrollBar().maximum() == 0
    assert block.horizontalScrollBar().maximum() == 0


def test_a_short_text_asks_for_no_more_than_its_width(block: BlockText) -> None:
    block.show_markdown("short")
    short = block.sizeHint().width()
    block.show_markdown("a longer line of words")
    assert 10 < short < block.sizeHint().width() < 300


def test_what_is_seen_grows_with_the_block(qtbot: QtBot) -> None:
    # Inside its own resizing a scroll area doesn't lay out again, and the last line was cut off.
    around = QWidget()
    qtbot.addWidget(around)
    around.resize(800, 600)
    block = BlockText(around)
    block.show_plain("star them illicit which it illicit you the see picture Which of you and")
    around.show()
    block.resize(600, block.height())
    block.resize(200, block.height())
    assert block.height() > 2 * block.fontMetrics().lineSpacing()
    assert block.viewport().size() == block.size()
