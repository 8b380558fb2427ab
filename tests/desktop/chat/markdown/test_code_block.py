from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.data.json_body import JsonBody
from desktop.chat.markdown import code_block
from desktop.chat.markdown import highlight as highlighting
from desktop.chat.markdown.code_block import LONGEST_LINE, TAIL, TAIL_GROWTH, CodeBlock, CodeText
from desktop.chat.markdown.highlight import LANGUAGES, Highlighting, Span
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.stream import LONGEST_CODE
from desktop.widgets.icon_button import CopyButton
from desktop.widgets.pacing import pace
from tests.desktop.hands import child

pytestmark = pytest.mark.usefixtures("dressed")

CODE = "def f(x):\n    return x + 1  # one\n\n"


@pytest.fixture
def block(qtbot: QtBot) -> CodeBlock:
    widget = CodeBlock()
    qtbot.addWidget(widget)
    widget.resize(400, 200)
    return widget


def highlight(code: str, language: str) -> list[list[Span]]:
    found = Highlighting(code, language)
    while found.go_on(1.0):
        pass
    return found.spans


def words(block: CodeBlock) -> CodeText:
    return child(block, CodeText)


def colour_at(block: CodeBlock, line: int, column: int) -> str:
    layout = words(block).document().findBlockByNumber(line).layout()
    for span in layout.formats():
        if span.start <= column < span.start + span.length:
            return span.format.foreground().color().name()
    return ""


def test_copy_gives_exactly_the_code(block: CodeBlock, qtbot: QtBot) -> None:
    code = "a\tb  \n\n" + "x" * (LONGEST_LINE + 5) + "\n"
    block.set_code(code, "text")
    button = child(block, CopyButton)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == code
    assert button.accessibleName() == "Copied"
    button._copied.setInterval(1)
    button._copied.start()
    qtbot.waitUntil(lambda: button.accessibleName() == "Copy the code")


ONE_LINE = json.dumps([{"name": f"thing {at}", "count": at} for at in range(3_000)])


@pytest.mark.parametrize("make", [MarkdownBody, lambda: JsonBody(ReplyFormat(kind="json"))])
def test_of_one_line_that_grows_only_the_end_is_laid_out(
    make: Callable[[], MarkdownBody | JsonBody], qtbot: QtBot
) -> None:
    body = make()
    qtbot.addWidget(body)
    body.append("```json\n" if isinstance(body, MarkdownBody) else " ")
    body.append(ONE_LINE[:60_000])
    qtbot.waitUntil(lambda: not pace().is_busy())
    block = body.findChildren(CodeBlock)[0]
    text, note = words(block), block.findChild(QLabel, "codeTail")
    assert isinstance(note, QLabel)
    before, grown = text.num_laid_out, 20_000
    for start in range(60_000, 60_000 + grown, 50):
        body.append(ONE_LINE[start : start + 50])
        # Whatever is laid out is painted anew at every word.
        assert TAIL <= len(text.toPlainText()) <= TAIL + TAIL_GROWTH
    assert text.num_laid_out - before < 8 * grown
    assert ONE_LINE[:80_000].endswith(text.toPlainText())
    assert note.isVisibleTo(block)
    assert block.code().strip() == ONE_LINE[:80_000]
    body.append(ONE_LINE[80_000:])
    body.finish()
    qtbot.waitUntil(lambda: not pace().is_busy())
    assert text.toPlainText().strip() == ONE_LINE
    assert not note.isVisibleTo(block)


def test_lines_of_usual_length_are_shown_whole_while_they_grow(
    block: CodeBlock, qtbot: QtBot
) -> None:
    code = "a line of code as they are\n" * 2_000
    for end in range(10_000, len(code), 1_000):
        block.set_code(code[:end], closed=False, grows=True, extends=True)
    qtbot.waitUntil(lambda: not pace().is_busy())
    assert words(block).toPlainText() == code[:end]
    assert words(block).num_laid_out == end


@pytest.mark.parametrize("length", [len(ONE_LINE), 4 * LONGEST_CODE])
def test_a_long_line_is_shown_whole_once_its_listing_ends(qtbot: QtBot, length: int) -> None:
    body = MarkdownBody()
    qtbot.addWidget(body)
    body.append("```json\n" + ONE_LINE[:length])
    qtbot.waitUntil(lambda: not pace().is_busy())
    text = words(body.findChildren(CodeBlock)[0])
    assert text.shows_tail()
    body.append("\n```\n\nMore is coming.")
    qtbot.waitUntil(lambda: not pace().is_busy())
    assert text.toPlainText() == ONE_LINE[:length]


def test_words_are_coloured_once_the_listing_has_ended(
    block: CodeBlock, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def watched(code: str, language: str) -> Highlighting:
        calls.append(code)
        return Highlighting(code, language)

    monkeypatch.setattr(code_block, "Highlighting", watched)
    block.set_code("def f", "python", closed=False)
    block.show()
    block.grab()
    qtbot.wait(5)
    assert calls == []
    block.set_code(CODE, "python", closed=True)
    block.grab()
    qtbot.waitUntil(block.is_coloured)
    block.grab()
    assert calls == [CODE]
    assert colour_at(block, 0, 0) == theme.colours().syntax_keyword
    assert colour_at(block, 1, 20) == theme.colours().syntax_comment


def test_lexers_are_loaded_by_a_thread(
    block: CodeBlock, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def watched(name: str, **options: object) -> Lexer:
        threads.append(threading.current_thread())
        return get_lexer_by_name(name, **options)

    monkeypatch.setattr(highlighting, "get_lexer_by_name", watched)
    highlighting._loading.cache_clear()
    highlighting._lexer.cache_clear()
    block.set_code(CODE, "python")
    block.grab()
    qtbot.waitUntil(block.is_coloured)
    assert len(threads) == 1 and threads[0] is not threading.main_thread()


def test_colours_follow_the_theme(block: CodeBlock, qtbot: QtBot, dressed: QApplication) -> None:
    block.set_code(CODE, "python")
    block.grab()
    qtbot.waitUntil(block.is_coloured)
    light = colour_at(block, 0, 0)
    theme.force(dressed, "dark")
    assert colour_at(block, 0, 0) == theme.colours().syntax_keyword != light


def test_the_end_of_a_long_listing_is_seen_while_it_grows(block: CodeBlock, qtbot: QtBot) -> None:
    block.show()
    bar = words(block).verticalScrollBar()
    line = "a line of code\n"
    for count in (300, 500, 900):
        block.set_code(line * count, closed=False, grows=True, extends=True)
        qtbot.waitUntil(words(block).is_complete)
        assert bar.value() == bar.maximum()
        assert (bar.maximum() > 0) == (count > 400) == words(block).is_field()
    bar.setValue(100)
    block.set_code(line * 1_000, closed=False, grows=True, extends=True)
    qtbot.waitUntil(words(block).is_complete)
    assert bar.value() == 100


def test_a_listing_that_is_whole_is_seen_from_its_beginning(block: CodeBlock, qtbot: QtBot) -> None:
    label = child(block, QLabel, "codeLanguage")
    block.show()
    bar = words(block).verticalScrollBar()
    for count, language in ((40, ""), (300, "python"), (500, "no such language"), (900, "c")):
        block.set_code("a line of code\n" * count, language)
        assert label.text() == (language or "text")
        qtbot.waitUntil(words(block).is_complete)
        assert bar.value() == 0 and (bar.maximum() == 0) == (count < 400)
    image = block.grab().toImage()
    assert image.pixelColor(image.width() // 2, 6) == QColor(theme.colours().code_background)


def test_colours_are_found_in_steps() -> None:
    assert Highlighting(CODE, "python").go_on(0.0)


def test_spans_count_as_qt_counts() -> None:
    # The rocket takes two of Qt's units, so what follows begins one later than Python says.
    (line,) = highlight('"\N{ROCKET}" + 1', "python")
    assert (7, 1, "syntax_number") in line


PLAIN = {
    "a line too long": "x" * 1_001,
    "too many lines": "x\n" * 401,
    "too long": ("x" * 900 + "\n") * 30,
    "too many colours": ("1 " * 400 + "\n") * 11,
}


@pytest.mark.parametrize("code", PLAIN.values(), ids=PLAIN)
def test_what_is_too_large_stays_plain(code: str) -> None:
    assert highlight(code, "python") == []
    assert highlight("1 " * 400, "python") != []


def test_a_listing_that_takes_too_long_or_is_unknown_stays_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert highlight("x = 'slow'", "no such language") == []
    monkeypatch.setattr(highlighting, "PATIENCE_S", 0.0)
    assert highlight("x = 'slow'", "python") == []


def test_every_language_of_the_list_is_known() -> None:
    assert [name for name in LANGUAGES if not highlight("a", name)] == []
