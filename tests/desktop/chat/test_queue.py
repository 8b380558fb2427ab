"""Enter while a reply is on its way: the message waits, is seen, and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton

from core.api.chat import UserMessage
from desktop.app import App
from desktop.chat.drafts import Drafts
from desktop.store.tables import drafts
from desktop.widgets.plain import ElidedLabel
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import (
    drop,
    ended,
    files,
    find,
    press,
    press_key,
    send,
    settle,
    thumbnails,
    type_in,
    user_rows,
)


def queued(app: App) -> list[str]:
    """The lines that say what waits."""
    found = app.window.page.composer.findChildren(ElidedLabel, "queuedWords")
    return [each.text() for each in found if each.isVisible()]


def typed(app: App) -> str:
    return app.window.page.composer.text.toPlainText()


def enter(app: App, text: str) -> None:
    type_in(app, text)
    press_key(app, Qt.Key.Key_Return)


async def test_messages_wait_and_are_sent_one_after_another(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    button = find(app, QAbstractButton, "queueButton")
    assert not button.isVisible()
    asked = await send(app, engine, "first")
    assert not button.isVisible()
    enter(app, "second")
    type_in(app, "third")
    assert button.isVisible()
    button.click()
    await settle()
    assert queued(app) == ["Queued: second", "Queued: third"]
    assert typed(app) == "" and len(engine.asked) == 1
    assert find(app, QAbstractButton, "sendButton").text() == "Stop"
    asked.finish("one")
    await until(lambda: len(engine.asked) == 2)
    assert queued(app) == ["Queued: third"]
    type_in(app, "half a")
    engine.asked[1].finish("two")
    await until(lambda: len(engine.asked) == 3)
    engine.asked[2].finish("three")
    await ended(app)
    assert [row.row.text for row in user_rows(app)] == ["first", "second", "third"]
    assert queued(app) == [] and typed(app) == "half a"


async def test_a_queued_message_is_taken_back_before_what_was_typed(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    asked = await send(app, engine, "first")
    enter(app, "second")
    type_in(app, "more")
    await settle()
    press(app, "queuedTakeBack")
    await until(lambda: queued(app) == [])
    assert typed(app) == "second\n\nmore"
    asked.finish("one")
    await ended(app)
    await settle()
    assert len(engine.asked) == 1


async def test_a_reply_that_was_stopped_gives_back_what_waited_for_it(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    asked = await send(app, engine, "first")
    asked.say("Half")
    enter(app, "second")
    enter(app, "third")
    press(app, "sendButton")
    await ended(app)
    await until(lambda: queued(app) == [])
    assert typed(app) == "second\n\nthird"
    assert len(engine.asked) == 1


async def test_pictures_wait_with_their_message(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    path = tmp_path / "red.png"
    path.write_bytes(png())
    asked = await send(app, engine, "first")
    drop(app, files([path]))
    await until(lambda: app.parts.chat.draft.complete and thumbnails(app))
    enter(app, "look")
    await settle()
    assert queued(app) == ["Queued: look, 1 image"] and thumbnails(app) == []
    asked.finish("one")
    await until(lambda: len(engine.asked) == 2)
    message = engine.asked[1].conversation.messages[-1]
    assert isinstance(message, UserMessage)
    assert [part.type for part in message.content] == ["image", "text"]
    engine.asked[1].finish("two")
    await ended(app)


async def test_what_waits_is_in_the_store_for_the_next_start(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    asked = await send(app, engine, "first")
    enter(app, "second")
    type_in(app, "and typed")
    app.window.page.composer.keep()

    def stored() -> list[str]:
        return [row.text for row in app.parts.database.run_now(drafts.stored)]

    await until(lambda: stored() == ["second\n\nand typed"])
    asked.finish("one")
    await until(lambda: len(engine.asked) == 2)
    await until(lambda: stored() == ["and typed"])
    engine.asked[1].finish("two")
    await ended(app)


async def test_what_waits_stays_stored_with_the_message_that_is_sent(
    open_app: OpenApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await open_app()
    asked = await send(app, engine, "first")
    enter(app, "second")
    enter(app, "third")
    await settle()
    # From now on the app may be killed before a draft is stored again.
    monkeypatch.setattr(Drafts, "save", lambda _self, _draft: None)
    app.parts.chat.draft.text = "half a"
    asked.finish("one")
    await until(lambda: len(engine.asked) == 2)
    (stored,) = await app.parts.database.run(drafts.stored)
    assert (stored.chat, stored.text) == (app.parts.transcript.chat, "third\n\nhalf a")


async def test_another_chat_is_sent_on_in_the_background(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    asked = await send(app, engine, "first")
    enter(app, "second")
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    assert queued(app) == []
    asked.finish("one")
    await until(lambda: len(engine.asked) == 2)
    assert app.parts.transcript.rows == []
    engine.asked[1].finish("two")
    await until(lambda: not app.parts.replies.live)


async def test_a_message_of_one_chat_does_not_wait_for_the_sending_of_another(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    path = tmp_path / "red.png"
    path.write_bytes(png())
    (await send(app, engine, "first")).finish("one")
    await ended(app)
    engine.may_describe.clear()
    drop(app, files([path]))
    await until(lambda: app.parts.chat.draft.pictures)
    enter(app, "look")
    await settle()
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    enter(app, "elsewhere")
    await until(lambda: len(engine.asked) == 2)
    assert queued(app) == [] and user_rows(app)[0].row.text == "elsewhere"
    engine.asked[1].finish("two")
    await ended(app)
    engine.may_describe.set()
    await until(lambda: len(engine.asked) == 3)
    engine.asked[2].finish("three")
    await until(lambda: not app.parts.replies.live)
