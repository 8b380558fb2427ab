"""H1, H8, H9: hostile replies in the real transcript raise nothing, block nothing, open nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop import theme
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.rows.reply_row import ReplyRow
from desktop.chat.rows.transcript_view import TranscriptView
from desktop.chat.transcript import LiveReply, Row, Transcript
from desktop.store.tables.records import Message, Reply, ReplyState
from desktop.widgets.pacing import pace
from tests.desktop.bait import Bait
from tests.desktop.conftest import HARMLESS
from tests.desktop.hands import arrive, no_drafts, no_formats
from tests.desktop.loop_watch import LoopWatch
from tests.hostile.counts import mutants
from tests.hostile.replies import reply
from tests.sweeps import first_quick

FULL = 1_000
# Replies in one test: enough for a failure to name a few.
BATCH = 10
slow = pytest.mark.slow
pytestmark = pytest.mark.qt_log_ignore(
    *HARMLESS,
    # This machine may have no font for an alphabet.
    "OpenType support missing",
)


@pytest.fixture
def view(qtbot: QtBot, qapp: QApplication) -> TranscriptView:
    theme.apply(qapp)
    widget = TranscriptView(Transcript(), no_drafts(), no_formats())
    qtbot.addWidget(widget)
    widget.resize(900, 700)
    widget.show()
    return widget


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Bait]:
    with Bait(tmp_path / "b") as bait:
        yield bait


def row(number: int, text: str, live: LiveReply | None = None) -> Row:
    ended = Reply(state=ReplyState.COMPLETE, reasoning=text[:300], finish_reason="stop")
    message = Message(number, number, None, text, 0.0, reply=ended, siblings=(number,))
    return Row(message, live)


def rest(qtbot: QtBot) -> None:
    for _ in range(3):
        qtbot.waitUntil(lambda: not pace().is_busy(), timeout=60_000)
        QApplication.processEvents()


def show_stored(view: TranscriptView, qtbot: QtBot, number: int, text: str) -> None:
    view._transcript.show(number, [row(number, text)])
    rest(qtbot)


def show_growing(view: TranscriptView, qtbot: QtBot, number: int, text: str) -> None:
    live = LiveReply(message=number, chat=number)
    view._transcript.show(number, [row(number, "", live)])
    for start in range(0, 600, 60):
        arrive(live, text[start : start + 60])
        QApplication.processEvents()
    arrive(live, text[600:])
    rest(qtbot)
    view._transcript.update(row(number, text))
    rest(qtbot)


def look_around(view: TranscriptView, qtbot: QtBot) -> None:
    for widget in view.row_widgets:
        if isinstance(widget, ReplyRow):
            widget._reasoning.set_open(True)
    bar = view.verticalScrollBar()
    for share in (0.0, 0.5, 1.0):
        bar.setValue(int(share * bar.maximum()))
        rest(qtbot)
    view.resize(700 if view.width() == 900 else 900, 700)
    rest(qtbot)


@pytest.mark.parametrize("first", first_quick(range(0, mutants(FULL), BATCH)))
def test_hostile_replies(view: TranscriptView, qtbot: QtBot, bait: Bait, first: int) -> None:
    texts = {seed: reply(seed, str(bait.path)) for seed in range(first, first + BATCH)}
    rest(qtbot)
    with LoopWatch() as watch:
        for seed, text in texts.items():
            watch.doing = f"reply {seed}"
            show = show_stored if seed % 2 else show_growing
            show(view, qtbot, seed + 1, text)
            look_around(view, qtbot)
            (widget,) = view.row_widgets
            assert isinstance(widget, ReplyRow)
            assert widget._body.text() == text
    assert not bait.opened


def test_the_grammar_writes_what_it_should(tmp_path: Path) -> None:
    # The tests above could pass for want of anything hostile.
    texts = [reply(seed, "/bait") for seed in range(300)]
    assert texts == [reply(seed, "/bait") for seed in range(300)]
    whole = "".join(texts)
    for part in ("/bait", "<style>@import'/bait'", "\u202e", "```", "| ", "> > >", "\x00", "]("):
        assert part in whole
    assert max(map(len, texts)) > 500_000
    assert sum(len(text) > 1_000 for text in texts) > 100


def test_a_listing_is_copied_whole_whatever_it_holds(view: TranscriptView, qtbot: QtBot) -> None:
    code = "\n".join(reply(seed, "/bait").replace("`", "'").replace("\r", "") for seed in (1, 2, 3))
    code = "".join(each for each in code if each.isprintable() or each == "\n")[:100_000].strip(
        "\n"
    )
    show_stored(view, qtbot, 1, f"````x\n{code}\n````")
    listing = view.findChild(CodeBlock)
    assert isinstance(listing, CodeBlock)
    assert listing.code() == code
