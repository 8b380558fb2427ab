from __future__ import annotations

import asyncio
import time
from pathlib import Path

from PySide6.QtTest import QTest

from desktop.app import App
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import (
    drop,
    ended,
    files,
    press,
    send,
    settle,
    thumbnails,
    type_in,
)


async def test_what_was_typed_just_before_the_window_closed_is_kept(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    """Also where the store is busy and the words still wait for it."""
    app = await open_app()
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    busy = asyncio.ensure_future(app.parts.database.run(lambda _: time.sleep(0.3)))
    await asyncio.sleep(0.05)
    type_in(app, "last words")
    app.parts.chat.open(None)
    await asyncio.sleep(0.05)
    app.leave()
    await app.gone.wait()
    await busy
    again = await open_app(FakeEngine())
    await until(lambda: again.parts.chat_list.chats)
    again.parts.chat.open(again.parts.chat_list.chats[0].id)
    await until(lambda: again.parts.transcript.rows)
    assert again.window.page.composer.text.toPlainText() == "last words"


async def test_drafts_survive_a_restart(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    type_in(app, "unsent words")
    app.parts.chat.open(None)
    type_in(app, "words of a chat to come")
    app.leave()
    await app.gone.wait()
    again = await open_app(FakeEngine())
    assert again.window.page.composer.text.toPlainText() == "words of a chat to come"
    await until(lambda: again.parts.chat_list.chats)
    again.parts.chat.open(again.parts.chat_list.chats[0].id)
    await until(lambda: again.parts.transcript.rows)
    assert again.window.page.composer.text.toPlainText() == "unsent words"
    assert [each.caption() for each in thumbnails(again)] == [
        "48 x 32 \N{RIGHTWARDS ARROW} 32 x 32, 4 tokens"
    ]


async def again(app: App, open_app: OpenApp) -> App:
    app.leave()
    await app.gone.wait()
    other = await open_app()
    await until(lambda: len(other.parts.chat_list.chats) == 2)
    await settle()
    return other


async def test_the_chat_that_was_left_is_open_at_the_next_start(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    for question in ("Hello", "Other"):
        press(app, "newChat")
        await until(lambda: app.parts.transcript.rows == [])
        (await send(app, engine, question)).finish("Hi")
        await ended(app)
    older = app.parts.chat_list.chats[1].id
    app.parts.chat.open(older)
    await until(lambda: app.parts.transcript.chat == older)
    app = await again(app, open_app)
    await until(lambda: app.parts.transcript.chat == older)
    assert [row.text for row in app.parts.transcript.rows] == ["Hello", "Hi"]
    # Left on the page for a new chat, it is that page.
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    app = await again(app, open_app)
    assert app.parts.transcript.chat is None
    app.parts.chat.open(older)
    await until(lambda: app.parts.transcript.chat == older)
    app.leave()
    await app.gone.wait()
    # Who types at once is not interrupted.
    app = await open_app()
    QTest.keyClicks(app.window.page.composer.text, "Begun")
    await until(lambda: len(app.parts.chat_list.chats) == 2)
    await settle()
    assert app.parts.transcript.chat is None
    assert app.window.page.composer.text.toPlainText() == "Begun"
