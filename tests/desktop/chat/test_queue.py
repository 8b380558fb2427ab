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
from tests.desktop.conftest import until
from tests.desktop.fake_engine import Asked, FakeEngine, png
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
    found = app.window.page.composer.findChildren(ElidedLabel, "queuedWords")
    return [each.text() for each in found if each.isVisible()]


def typed(app: App) -> str:
    return app.window.page.composer.text.toPlainText()


def enter(app: App, text: str) -> None:
    type_in(app, text)
    press_key(app, Qt.Key.Key_Return)


def red(folder: Path) -> Path:
    path = folder / "red.png"
    path.write_bytes(png())
    return path


async def next_asked(engine: FakeEngine, count: int) -> Asked:
    await until(lambda: len(engine.asked) == count, f"{count} requests")
    return engine.asked[-1]


async def test_messages_wait_are_sent_and_taken_back(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    button = find(app, QAbstractButton, "queueButton")
    asked = await send(app, engine, "first")
    assert not button.isVisible()
    enter(app, "second")
    type_in(app, "third")
    assert button.isVisible()
    button.click()
    await settle()
    assert queued(app) == ["Queued: second", "Queued: third"]
    assert typed(app) == "" and len(engine.asked) == 1
    asked.finish("one")
    asked = await next_asked(engine, 2)
    assert queued(app) == ["Queued: third"]
    type_in(app, "half a")
    asked.finish("two")
    asked = await next_asked(engine, 3)
    assert [row.row.text for row in user_rows(app)] == ["first", "second", "third"]
    assert queued(app) == [] and typed(app) == "half a"
    await one_is_taken_back_before_what_is_typed(app, asked)
    await a_stopped_reply_gives_back_what_waits(app, engine)
    await pictures_wait_with_their_message(app, engine, red(tmp_path))
    await another_chat_is_continued_in_the_background(app, engine)


async def one_is_taken_back_before_what_is_typed(app: App, asked: Asked) -> None:
    enter(app, "fourth")
    type_in(app, "more")
    await settle()
    press(app, "queuedTakeBack")
    await until(lambda: queued(app) == [])
    assert typed(app) == "fourth\n\nmore"
    asked.finish("three")
    await ended(app)


async def a_stopped_reply_gives_back_what_waits(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "fifth")).say("Half")
    enter(app, "sixth")
    enter(app, "seventh")
    press(app, "sendButton")
    await ended(app)
    await until(lambda: queued(app) == [])
    assert typed(app) == "sixth\n\nseventh"
    # Neither is what was taken back before among the requests.
    assert len(engine.asked) == 4


async def pictures_wait_with_their_message(app: App, engine: FakeEngine, path: Path) -> None:
    asked = await send(app, engine, "first")
    drop(app, files([path]))
    await until(lambda: app.parts.chat.draft.complete and thumbnails(app))
    enter(app, "look")
    await settle()
    press(app, "queuedTakeBack")
    await until(lambda: len(thumbnails(app)) == 1)
    enter(app, "look")
    await settle()
    assert queued(app) == ["Queued: look, 1 image"] and thumbnails(app) == []
    asked.finish("one")
    asked = await next_asked(engine, 6)
    message = asked.conversation.messages[-1]
    assert isinstance(message, UserMessage)
    assert [part.type for part in message.content] == ["image", "text"]
    asked.finish("two")
    await ended(app)


async def another_chat_is_continued_in_the_background(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "first")
    enter(app, "second")
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    assert queued(app) == []
    asked.finish("one")
    asked = await next_asked(engine, 8)
    assert app.parts.transcript.rows == []
    asked.finish("two")
    await until(lambda: not app.parts.replies.live)


async def test_what_waits_is_stored_until_its_message_is(
    app: App, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:

    def stored() -> list[tuple[int | None, str]]:
        return [(row.chat, row.text) for row in app.parts.database.run_now(drafts.stored)]

    asked = await send(app, engine, "first")
    chat = app.parts.transcript.chat
    enter(app, "second")
    enter(app, "third")
    type_in(app, "half a")
    app.window.page.composer.keep()
    await until(lambda: stored() == [(chat, "second\n\nthird\n\nhalf a")])
    # From now on the app may be killed before a draft is stored again.
    monkeypatch.setattr(Drafts, "save", lambda _self, _draft: None)
    asked.finish("one")
    await next_asked(engine, 2)
    assert stored() == [(chat, "third\n\nhalf a")]


async def test_a_message_of_one_chat_does_not_wait_for_the_sending_of_another(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    (await send(app, engine, "first")).finish("one")
    await ended(app)
    engine.may_describe.clear()
    drop(app, files([red(tmp_path)]))
    await until(lambda: app.parts.chat.draft.pictures)
    enter(app, "look")
    await settle()
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    enter(app, "elsewhere")
    asked = await next_asked(engine, 2)
    assert queued(app) == [] and user_rows(app)[0].row.text == "elsewhere"
    asked.finish("two")
    await ended(app)
    engine.may_describe.set()
    (await next_asked(engine, 3)).finish("three")
    await until(lambda: not app.parts.replies.live)
