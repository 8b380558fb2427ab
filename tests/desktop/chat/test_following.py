"""Where the conversation stands: it follows what the user has asked for, and nothing else."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from desktop.app import App
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import Asked, FakeEngine
from tests.desktop.hands import ended, find, press, send, settle


async def stopped_reply(open_app: OpenApp, engine: FakeEngine) -> App:
    """A window with one long reply that was stopped."""
    app = await open_app()
    bar = app.window.page.transcript.verticalScrollBar()
    asked = await send(app, engine, "Hello")
    asked.say("line\n\n" * 120)
    await until(lambda: bar.maximum() > 600)
    press(app, "sendButton")
    await ended(app)
    await settle()
    return app


async def says(app: App, asked: Asked, text: str) -> None:
    """More of the reply arrives and is laid out."""
    bar = app.window.page.transcript.verticalScrollBar()
    before = bar.maximum()
    asked.say(text)
    await until(lambda: bar.maximum() > before)
    await settle()


async def test_continuing_stays_at_the_end_and_follows(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await stopped_reply(open_app, engine)
    bar = app.window.page.transcript.verticalScrollBar()
    assert bar.value() == bar.maximum()
    app.window.activateWindow()
    button = find(app, QAbstractButton, "continueReply")
    button.setFocus(Qt.FocusReason.TabFocusReason)
    await until(button.hasFocus)
    QTest.keyClick(button, Qt.Key.Key_Space)
    seen = [bar.value()]
    bar.valueChanged.connect(seen.append)
    await until(lambda: len(engine.asked) == 2)
    await settle()
    asked = engine.asked[-1]
    await says(app, asked, "more\n\n" * 20)
    await says(app, asked, "more\n\n" * 20)
    assert bar.value() == bar.maximum()
    assert min(seen) > 300, "it has never gone to the top"
    press(app, "sendButton")
    await ended(app)
    await settle()
    await a_button_leads_back_to_the_end(app)
    bar.setValue(bar.maximum() - 300)
    await settle()
    press(app, "continueReply")
    await until(lambda: len(engine.asked) == 3)
    await says(app, engine.asked[-1], "more\n\n" * 20)
    assert bar.value() == bar.maximum()


async def a_button_leads_back_to_the_end(app: App) -> None:
    bar = app.window.page.transcript.verticalScrollBar()
    button = find(app, QAbstractButton, "jumpToNewest")
    assert not button.isVisible()
    bar.setValue(bar.maximum() - 300)
    assert button.isVisible()
    assert app.window.page.transcript.rect().contains(button.geometry())
    press(app, "jumpToNewest")
    await settle()
    assert bar.value() == bar.maximum() and not button.isVisible()


async def test_who_was_led_to_the_end_is_at_the_end(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await open_app()
    (await send(app, engine, "Hello")).finish("A short reply.")
    await ended(app)
    await settle()
    app.window.page.transcript.show_message(1)
    await settle()
    assert app.window.page.transcript.follows
    assert not find(app, QAbstractButton, "jumpToNewest").isVisible()
