"""Versions of a reply: where their buttons are, when these are seen, and where the view stays."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget

from core.api.stats import RequestStats
from desktop.app import App
from desktop.chat.reply_row import ReplyRow
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, settle, words

LONG = "A line of a reply.\n\n" * 60
STATS = RequestStats(
    prompt_tokens=1_234_567,
    reused_tokens=1_234_000,
    evaluated_tokens=567,
    images_in_prompt=3,
    images_encoded=1,
    ttft_s=1.5,
    decode_tokens_per_s=12.5,
)


def asked_more(engine: FakeEngine, before: int) -> bool:
    return len(engine.asked) > before


def shows(app: App, text: str) -> bool:
    """Whether the last message is this one, drawn to its end."""
    widget = app.window.page.transcript.messages.at(len(app.parts.transcript.rows) - 1)
    shown = app.parts.transcript.rows[-1].text == text
    return shown and widget is not None and widget.is_drawn()


async def versions(app: App, engine: FakeEngine, *texts: str) -> ReplyRow:
    """Replies to one message, the last one shown."""
    (await send(app, engine, "Hello")).finish(texts[0])
    row = await ended(app)
    for text in texts[1:]:
        before = len(engine.asked)
        press(app, "regenerate")
        await until(partial(asked_more, engine, before))
        engine.asked[-1].finish(text)
        row = await ended(app)
    await settle()
    return row


def place_in(row: QWidget, name: str) -> QPoint:
    found = row.findChild(QWidget, name)
    assert found is not None and found.isVisible()
    return found.mapTo(row, QPoint(0, 0))


def seen(row: ReplyRow) -> bool:
    """Whether the row's buttons are drawn, as far as their effect says."""
    effect = row._hidden
    return effect is None or not effect.isEnabled()


async def test_buttons_keep_their_places_when_versions_come(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    names = ("copyMessage", "regenerate", "forkChat")
    row = await versions(app, engine, "first")
    before = [place_in(row, name) for name in names]
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 2)
    engine.asked[-1].finish("other")
    row = await ended(app)
    await settle()
    assert words(app, "alternativePlace") == "2/2"
    assert find(app, QLabel, "alternativePlace").toolTip() == "Version 2 of 2"
    assert [place_in(row, name) for name in names] == before


async def test_buttons_keep_their_places_when_numbers_wrap(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    names = ("copyMessage", "forkChat", "numbersToggle")
    (await send(app, engine, "Hello")).finish("first", stats=STATS)
    row = await ended(app)
    tops = []
    for width in (1600, 700):
        app.window.resize(width, 700)
        await settle()
        tops.append([place_in(row, name).y() for name in names])
    numbers = row.findChild(QLabel, "numbersText")
    assert numbers is not None and numbers.height() > 2 * numbers.fontMetrics().height()
    assert tops[0] == tops[1]


async def test_versions_are_seen_without_the_pointer(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await open_app()
    await versions(app, engine, "first", "second")
    (await send(app, engine, "More")).finish("third")
    await ended(app)
    (await send(app, engine, "And more")).finish("fourth")
    await ended(app)
    await settle()
    rows = [each for each in app.window.page.transcript.row_widgets if isinstance(each, ReplyRow)]
    assert [seen(each) for each in rows] == [True, False, True]


@pytest.mark.parametrize("other", ["Short.", LONG.replace("A", "Another"), LONG * 3])
async def test_the_view_stays_where_it_is_when_a_version_is_turned_to(
    open_app: OpenApp, engine: FakeEngine, other: str
) -> None:
    app = await open_app()
    app.window.resize(1000, 700)
    (await send(app, engine, "Before")).finish(LONG)
    await ended(app)
    await versions(app, engine, other, LONG)
    view = app.window.page.transcript
    # The user's message is at the top of the view, the reply with its versions below it.
    view.show_message(2)
    await settle()
    question = view.messages.at(2)
    assert question is not None

    def top() -> int:
        return question.mapTo(view, QPoint(0, 0)).y()

    before = top()
    for name, shown in (("turnBack", other), ("turnOn", LONG)):
        find(app, QAbstractButton, name).click()
        await until(partial(shows, app, shown))
        await settle()
        assert top() == before
    # A message that is sent is at the end all the same.
    (await send(app, engine, "After")).finish("Yes.")
    await ended(app)
    await settle()
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum()


async def test_a_version_that_ends_above_the_view_is_brought_into_it(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    app.window.resize(1000, 700)
    await versions(app, engine, "Short.", LONG)
    view = app.window.page.transcript
    assert view.verticalScrollBar().value() > 2 * view.height() // 3
    press(app, "turnBack")
    await until(lambda: app.parts.transcript.rows[-1].text == "Short.")
    await settle()
    row = view.messages.at(1)
    assert row is not None
    assert 0 <= row.mapTo(view, QPoint(0, 0)).y() < view.height() - row.height()
