from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QScrollBar, QWidget

from core.api.stats import RequestStats
from desktop.app import App
from desktop.chat.compose.composer_text import ComposerText
from desktop.chat.rows.reply_row import ReplyRow
from tests.desktop.conftest import until
from tests.desktop.fake_engine import Asked, FakeEngine
from tests.desktop.hands import child, ended, find, press, send, settle, words

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


def bar_of(app: App) -> QScrollBar:
    return app.window.page.transcript.verticalScrollBar()


async def asked_again(engine: FakeEngine, before: int) -> Asked:
    await until(lambda: len(engine.asked) > before)
    return engine.asked[-1]


async def answered(app: App, engine: FakeEngine, question: str, answer: str) -> ReplyRow:
    (await send(app, engine, question)).finish(answer, stats=STATS)
    row = await ended(app)
    await settle()
    return row


async def another_version(app: App, engine: FakeEngine, text: str) -> ReplyRow:
    before = len(engine.asked)
    press(app, "regenerate")
    (await asked_again(engine, before)).finish(text)
    row = await ended(app)
    await settle()
    return row


def shows(app: App, text: str) -> bool:
    widget = app.window.page.transcript.messages.at(len(app.parts.transcript.rows) - 1)
    shown = app.parts.transcript.rows[-1].text == text
    return shown and widget is not None and widget.is_drawn()


def places_in(row: QWidget, *names: str) -> list[QPoint]:
    found = [row.findChild(QWidget, name) for name in names]
    return [each.mapTo(row, QPoint(0, 0)) for each in found if each and each.isVisible()]


def seen(row: ReplyRow) -> bool:
    return row._hidden is None or not row._hidden.isEnabled()


async def test_buttons_keep_their_places_and_those_of_versions_are_always_seen(
    app: App, engine: FakeEngine
) -> None:
    row = await answered(app, engine, "Hello", "first")
    tops = []
    for width in (1600, 700, 1600):
        app.window.resize(width, 700)
        await settle()
        places = places_in(row, "copyMessage", "forkChat", "numbersToggle")
        tops.append([place.y() for place in places])
        if width == 700:
            numbers = child(row, QLabel, "numbersText")
            assert numbers.height() > 2 * numbers.fontMetrics().height()
    assert tops[0] == tops[1] and len(tops[0]) == 3
    names = ("copyMessage", "regenerate", "forkChat")
    before = places_in(row, *names)
    row = await another_version(app, engine, "second")
    assert words(app, "alternativePlace") == "2/2"
    assert find(app, QLabel, "alternativePlace").toolTip() == "Version 2 of 2"
    assert places_in(row, *names) == before
    await answered(app, engine, "More", "third")
    await answered(app, engine, "And more", "fourth")
    rows = [each for each in app.window.page.transcript.row_widgets if isinstance(each, ReplyRow)]
    assert [seen(each) for each in rows] == [True, False, True]


async def test_keys_turn_to_versions_and_edit_the_last_message(
    app: App, engine: FakeEngine
) -> None:
    actions = app.window.actions_by_name
    await answered(app, engine, "Hello", "first")
    assert not actions["actionBefore"].isEnabled()
    await another_version(app, engine, "second")
    await answered(app, engine, "More", "third")
    actions["actionBefore"].trigger()
    await until(lambda: app.parts.transcript.rows[1].text == "first")
    # There is none before it.
    actions["actionBefore"].trigger()
    await settle()
    assert app.parts.transcript.rows[1].text == "first"
    actions["actionAfter"].trigger()
    await until(lambda: app.parts.transcript.rows[1].text == "second")
    actions["actionEdit"].trigger()
    field = find(app, ComposerText, "editText")
    assert field.toPlainText() == "More"
    # It comes back to an editor that was left open.
    app.window.page.composer.setFocus()
    assert not field.hasFocus()
    actions["actionEdit"].trigger()
    assert field.hasFocus()


@pytest.mark.parametrize(
    "other",
    [
        "Short.",
        pytest.param(LONG.replace("A", "Another"), marks=pytest.mark.slow),
        pytest.param(LONG * 3, marks=pytest.mark.slow),
    ],
)
async def test_the_view_stays_where_it_is_when_a_version_is_turned_to(
    app: App, engine: FakeEngine, other: str
) -> None:
    app.window.resize(1000, 700)
    await answered(app, engine, "Before", LONG)
    await answered(app, engine, "Hello", other)
    await another_version(app, engine, LONG)
    view = app.window.page.transcript
    # The user's message is at the top of the view, the reply with its versions below it.
    view.show_message(2)
    await settle()
    question = view.messages.at(2)
    assert question is not None
    before = question.mapTo(view, QPoint(0, 0)).y()
    for name, shown in (("turnBack", other), ("turnOn", LONG)):
        find(app, QAbstractButton, name).click()
        await until(partial(shows, app, shown))
        await settle()
        assert question.mapTo(view, QPoint(0, 0)).y() == before
    # A message that is sent is at the end all the same.
    await answered(app, engine, "After", "Yes.")
    assert bar_of(app).value() == bar_of(app).maximum()


async def test_a_version_that_ends_above_the_view_is_brought_into_it(
    app: App, engine: FakeEngine
) -> None:
    app.window.resize(1000, 700)
    await answered(app, engine, "Hello", "Short.")
    view = app.window.page.transcript
    # Led to the end, one is at the end.
    view.show_message(1)
    await settle()
    assert view.follows and not find(app, QAbstractButton, "jumpToNewest").isVisible()
    await another_version(app, engine, LONG)
    assert bar_of(app).value() > 2 * view.height() // 3
    press(app, "turnBack")
    await until(lambda: app.parts.transcript.rows[-1].text == "Short.")
    await settle()
    row = view.messages.at(1)
    assert row is not None
    assert 0 <= row.mapTo(view, QPoint(0, 0)).y() < view.height() - row.height()


async def says(app: App, asked: Asked, text: str) -> None:
    before = bar_of(app).maximum()
    asked.say(text)
    await until(lambda: bar_of(app).maximum() > before)
    await settle()


async def stopped(app: App) -> None:
    press(app, "sendButton")
    await ended(app)
    await settle()


async def test_continuing_stays_at_the_end_and_follows(app: App, engine: FakeEngine) -> None:
    bar = bar_of(app)
    await says(app, await send(app, engine, "Hello"), "line\n\n" * 120)
    await stopped(app)
    assert bar.value() == bar.maximum() > 600
    app.window.activateWindow()
    button = find(app, QAbstractButton, "continueReply")
    button.setFocus(Qt.FocusReason.TabFocusReason)
    await until(button.hasFocus)
    positions = [bar.value()]
    bar.valueChanged.connect(positions.append)
    QTest.keyClick(button, Qt.Key.Key_Space)
    asked = await asked_again(engine, 1)
    await settle()
    for _ in range(2):
        await says(app, asked, "more\n\n" * 20)
    assert bar.value() == bar.maximum()
    assert min(positions) > 300, "it has never gone to the top"
    await stopped(app)
    await a_button_leads_back_to_the_end(app)
    bar.setValue(bar.maximum() - 300)
    await settle()
    press(app, "continueReply")
    await says(app, await asked_again(engine, 2), "more\n\n" * 20)
    assert bar.value() == bar.maximum()


async def a_button_leads_back_to_the_end(app: App) -> None:
    bar, button = bar_of(app), find(app, QAbstractButton, "jumpToNewest")
    assert not button.isVisible()
    bar.setValue(bar.maximum() - 300)
    assert button.isVisible()
    assert app.window.page.transcript.rect().contains(button.geometry())
    press(app, "jumpToNewest")
    await settle()
    assert bar.value() == bar.maximum() and not button.isVisible()
