from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from desktop import theme
from desktop.chat.markdown import markdown_body
from desktop.chat.markdown.block_text import INDENT, BlockText
from desktop.chat.markdown.code_block import CodeBlock, CodeText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.renderer import CODE_EDGE
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Button
from tests.desktop.hands import child
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")


@pytest.fixture
def body(qtbot: QtBot) -> MarkdownBody:
    widget = MarkdownBody()
    qtbot.addWidget(widget)
    widget.resize(500, 300)
    return widget


def shown(body: MarkdownBody) -> list[str]:
    return [
        block.toPlainText() if isinstance(block, BlockText) else block.code()
        for block in body.blocks()
    ]


def test_the_text_is_kept_exactly(body: MarkdownBody) -> None:
    pieces = ["# a\r\n", "\x00*b*", "\ud800", " \n\n\n"]
    for piece in pieces:
        body.append(piece)
    body.finish()
    assert body.text() == "".join(pieces)
    body.set_text("new")
    assert (body.text(), shown(body)) == ("new", ["new"])


def test_streaming_shows_the_same_as_a_complete_text(body: MarkdownBody, qtbot: QtBot) -> None:
    for letter in samples.REPLY:
        body.append(letter)
    body.finish()
    whole = MarkdownBody()
    qtbot.addWidget(whole)
    whole.set_text(samples.REPLY)
    qtbot.waitUntil(whole.is_drawn)
    assert shown(body) == shown(whole)
    assert len(shown(body)) == 7


STEPS = """1. Install:
   ```sh
   pip install
     x
   ```
   Then *go*:

   - nested
     ```py
     a = 1
     ```
     rest
   - sibling
1. Next
1. Third
   ```
   b
   ```
- ```js
  c
  ```

After
"""
STEPS_SHOWN = [
    *("Install:", "pip install\n  x", "Then go:", "nested", "a = 1", "rest", "sibling"),
    *("Next\nThird", "b", CODE_EDGE.replace("\xa0", " "), "c", "After"),
]
STEPS_LEFT = [0, 1, 1, 1, 2, 2, 1, 0, 1, 0, 1, 0]


def lefts(body: MarkdownBody) -> list[float]:
    QApplication.processEvents()
    return [block.mapTo(body, QPoint(0, 0)).x() / INDENT for block in body.blocks()]


def test_code_in_a_list_is_a_code_block(body: MarkdownBody, qtbot: QtBot) -> None:
    body.show()
    body.set_text(STEPS)
    qtbot.waitUntil(body.is_drawn)
    assert shown(body) == STEPS_SHOWN
    assert lefts(body) == STEPS_LEFT
    codes = [block for block in body.blocks() if isinstance(block, CodeBlock)]
    assert [code.language() for code in codes] == ["sh", "py", "", "js"]
    qtbot.waitUntil(lambda: all(code.is_coloured() for code in codes))
    # Numbers go on after code, whatever number is written.
    block = body.blocks()[7]
    assert isinstance(block, BlockText)
    assert block.document().begin().textList().format().start() == 2


def test_code_in_a_list_is_streamed(body: MarkdownBody) -> None:
    body.show()
    for letter in STEPS[:-1]:
        body.append(letter)
    assert body.num_renders < 2 * len(STEPS)
    before = body.num_renders
    body.append(" and")
    assert body.num_renders == before + 1
    body.finish()
    assert shown(body) == [*STEPS_SHOWN[:-1], "After and"]
    assert lefts(body) == STEPS_LEFT
    body.set_text("a\n\nb")
    assert shown(body) == ["a", "b"]
    assert lefts(body) == [0, 0]


def test_a_list_too_long_for_one_block_keeps_its_code(body: MarkdownBody, qtbot: QtBot) -> None:
    steps = 60
    body.set_text("".join(f"{at}. Do\n   ```\n" + "   x\n" * 6 + "   ```\n" for at in range(steps)))
    qtbot.waitUntil(body.is_drawn)
    assert shown(body) == ["Do", "\n".join("x" * 6)] * steps


def test_only_the_last_block_is_drawn_again(body: MarkdownBody, qtbot: QtBot) -> None:
    body.append("".join(f"paragraph {number}\n\n" for number in range(50)))
    qtbot.waitUntil(body.is_drawn)
    assert body.num_renders == 50
    for count, word in enumerate(["a", " few", " words", " more"], start=1):
        body.append(word)
        assert body.num_renders == 50 + count
    body.finish()
    assert body.num_renders == 54


def test_a_theme_change_draws_the_words_in_its_colours(
    body: MarkdownBody, dressed: QApplication, qtbot: QtBot
) -> None:
    body.set_text("[a](https://example.org)")
    (block,) = body.findChildren(BlockText)
    for scheme in ("light", "dark"):
        theme.force(dressed, "dark" if scheme == "dark" else "light")
        qtbot.waitUntil(lambda: not pace().is_busy())
        cursor = QTextCursor(block.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        assert cursor.charFormat().foreground().color() == QColor(theme.colours().link)


def test_a_listing_gets_a_block_of_its_own(body: MarkdownBody) -> None:
    body.append("see\n\n``")
    assert shown(body) == ["see", "``"]
    body.append("`python\nx = 1\n")
    (code,) = body.findChildren(CodeBlock)
    assert (code.code(), code.language()) == ("x = 1", "python")
    body.append("```\nmore")
    assert shown(body) == ["see", "x = 1", "more"]
    assert body.findChildren(CodeBlock) == [code]
    body.set_text("see\n\n```python\nother code")
    body.append("\nand more")
    text = body.findChildren(CodeText)[0]
    assert text.toPlainText() == "other code\nand more"


@pytest.mark.parametrize("inner", [BlockText, CodeText])
def test_the_wheel_scrolls_the_page(qtbot: QtBot, inner: type[BlockText | CodeText]) -> None:
    area = QScrollArea()
    qtbot.addWidget(area)
    area.setWidgetResizable(True)
    body = MarkdownBody()
    area.setWidget(body)
    area.resize(400, 200)
    area.show()
    body.set_text("```\ncode\n```\n\n" + "words\n\n" * 50)
    qtbot.waitUntil(lambda: area.verticalScrollBar().maximum() > 0)
    found = child(body, inner)
    middle = found.mapTo(area, found.rect().center())
    QTest.wheelEvent(area.windowHandle(), middle, QPoint(0, -120))
    qtbot.waitUntil(lambda: area.verticalScrollBar().value() > 0)


def test_a_long_text_is_drawn_in_steps_until_another_replaces_it(
    body: MarkdownBody, qtbot: QtBot
) -> None:
    text = "".join(f"paragraph {number}\n\n" for number in range(100))
    body.set_text(text)
    assert not body.is_drawn() and 0 < body.num_renders < 20
    # It goes on in later turns of the loop, whatever else is said in this one.
    begun = body.num_renders
    body.finish()
    assert body.num_renders == begun
    assert body.text() == text
    body.set_text("other\n\nwords")
    qtbot.waitUntil(body.is_drawn)
    assert shown(body) == ["other", "words"]
    body.set_text("many\n\n" * 100)
    assert len(shown(body)) < 20
    qtbot.waitUntil(body.is_drawn)
    assert shown(body) == ["many"] * 100
    body.set_text("more\n\n" * 100)
    assert len(shown(body)) < 20


def more(body: MarkdownBody) -> Button:
    return child(body, Button, "showMore")


@pytest.mark.parametrize("arrives", ["at once", "by and by"])
def test_of_a_very_long_text_a_part_is_drawn_and_a_button_draws_the_next(
    body: MarkdownBody, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, arrives: str
) -> None:
    monkeypatch.setattr(markdown_body, "PAGE", 10_000)
    pieces = [f"paragraph {number}\n\n" for number in range(40)]
    if arrives == "at once":
        body.set_text("".join(pieces))
    else:
        for piece in pieces:
            body.append(piece)
        body.finish()
    qtbot.waitUntil(body.is_drawn)
    assert body.text() == "".join(pieces)
    first = len(shown(body))
    assert 10 < first < 20
    assert not more(body).isHidden()
    assert "characters are not shown" in more(body).text()
    more(body).click()
    qtbot.waitUntil(body.is_drawn)
    assert first < len(shown(body)) < 40
    more(body).click()
    qtbot.waitUntil(body.is_drawn)
    assert shown(body) == [piece.strip() for piece in pieces]
    assert more(body).isHidden()
    body.set_text("short")
    assert shown(body) == ["short"]
    assert body.pages() == 1


@pytest.mark.parametrize("line", ["x\n", "x" * 99 + "\n", "x" * 50_000 + "\n"])
def test_a_long_listing_is_one_listing_and_scrolls_in_a_field(
    body: MarkdownBody, qtbot: QtBot, line: str
) -> None:
    code = line * (60_000 // len(line) + 2)
    for size in (len(code), 3_000):
        body.set_text("")
        for start in range(0, len(code), size):
            body.append(("```py\n" if not start else "") + code[start : start + size])
        body.append("```\nafter")
        body.finish()
        qtbot.waitUntil(body.is_drawn)
        assert shown(body) == [code.removesuffix("\n"), "after"]
    listing = body.blocks()[0]
    assert isinstance(listing, CodeBlock)
    words = child(listing, CodeText)
    assert words.is_field() == (len(line) < 50_000)
    qtbot.waitUntil(words.is_complete)
    assert words.toPlainText() == code.removesuffix("\n")
    listing.copy()
    assert QGuiApplication.clipboard().text() == code.removesuffix("\n")
    QGuiApplication.clipboard().clear()


def test_a_very_long_block_is_drawn_less_often_but_whole(body: MarkdownBody) -> None:
    for _ in range(300):
        body.append("some fifty characters of words, one after another. ")
    assert 150 < body.num_renders < 250  # each sentence up to 8,000 characters, then one in 2 %
    body.finish()
    assert shown(body) == [("some fifty characters of words, one after another. " * 300).strip()]


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ("Text.\n\n```python\nprint(1)", "\nprint(2)\n```\nDone."),
        ("A paragraph that stops in a wo", "rd and goes on.\n\nAnother."),
        ("- one\n- tw", "o\n- three"),
    ],
)
def test_a_text_that_goes_on_after_its_end_is_drawn_as_one(
    body: MarkdownBody, qtbot: QtBot, first: str, rest: str
) -> None:
    body.append(first)
    body.finish()
    qtbot.waitUntil(body.is_drawn)
    body.append(rest)
    body.finish()
    qtbot.waitUntil(body.is_drawn)
    whole = MarkdownBody()
    qtbot.addWidget(whole)
    whole.set_text(first + rest)
    qtbot.waitUntil(whole.is_drawn)
    assert body.text() == first + rest
    assert shown(body) == shown(whole)
    assert list(map(type, body.blocks())) == list(map(type, whole.blocks()))
