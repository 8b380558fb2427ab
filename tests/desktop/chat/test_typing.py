"""What is typed is kept: drafts and instructions, within half a second, with nothing to press."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QPlainTextEdit

from core.api.chat import SystemMessage
from desktop.app import App
from desktop.chat import drafts
from desktop.store.folders import Folders
from tests.desktop.conftest import PATIENCE_S, OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, settle


def stored(folders: Folders, query: str) -> list[str]:
    """What another program reads in the file of chats at this moment."""
    with closing(sqlite3.connect(folders.database)) as connection:
        return [str(text) for (text,) in connection.execute(query)]


def instructions(app: App) -> QPlainTextEdit:
    field = find(app, QPlainTextEdit, "instructionsText")
    if not field.isVisible():
        press(app, "toggleInstructions")
    return field


async def type_until(field: QPlainTextEdit, done: Callable[[], object]) -> None:
    """Type steadily, with no pause in which anything could be stored after one."""
    for _ in range(int(PATIENCE_S)):
        QTest.keyClicks(field, "on and ")
        await asyncio.sleep(0.05)
        if done():
            return
    raise AssertionError("steady typing is never stored")


def test_no_more_than_half_a_second_of_typing_can_be_lost() -> None:
    assert drafts.STORED_AFTER_MS <= 500


async def test_steady_typing_is_stored_while_it_goes_on(
    open_app: OpenApp, folders: Folders
) -> None:
    app = await open_app()
    field = app.window.page.composer.text
    await type_until(field, lambda: any(stored(folders, "SELECT text FROM drafts")))
    assert stored(folders, "SELECT text FROM drafts")[0].startswith("on and")


async def test_instructions_are_stored_while_they_are_typed(
    open_app: OpenApp, engine: FakeEngine, folders: Folders
) -> None:
    app = await open_app()
    query = "SELECT system FROM drafts WHERE system != ''"
    await type_until(instructions(app), lambda: stored(folders, query))
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    instructions(app).clear()
    query = "SELECT system FROM chats WHERE system LIKE 'on and%'"
    assert stored(folders, query)
    await until(lambda: not stored(folders, query))
    await type_until(instructions(app), lambda: stored(folders, query))


async def test_typed_instructions_are_used_with_the_next_message(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    QTest.keyClicks(instructions(app), "Be brief.")
    first = await send(app, engine, "Hello")
    assert first.conversation.messages[0] == SystemMessage(text="Be brief.")
    first.finish("Hi")
    await ended(app)
    instructions(app).selectAll()
    QTest.keyClicks(instructions(app), "Be long.")
    second = await send(app, engine, "More")
    assert second.conversation.messages[0] == SystemMessage(text="Be long.")
    second.finish("Hi")
    await ended(app)
    # Not only what is sent uses them.
    QTest.keyClicks(instructions(app), " And kind.")
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 3)
    assert engine.asked[2].conversation.messages[0] == SystemMessage(text="Be long. And kind.")
    engine.asked[2].finish("Hi")
    await ended(app)


async def test_typed_instructions_stay_in_their_chat(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await open_app()
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    chat = app.parts.transcript.chat
    QTest.keyClicks(instructions(app), "Be brief.")
    app.parts.chat.open(None)
    assert instructions(app).toPlainText() == ""
    QTest.keyClicks(instructions(app), "Be long.")
    app.parts.chat.open(chat)
    await until(lambda: instructions(app).toPlainText() == "Be brief.")
    app.parts.chat.open(None)
    assert instructions(app).toPlainText() == "Be long."
    app.leave()
    await app.gone.wait()
    again = await open_app(FakeEngine())
    assert instructions(again).toPlainText() == "Be long."
    again.parts.chat.open(chat)
    await until(lambda: instructions(again).toPlainText() == "Be brief.")


async def test_header_and_composer_show_that_there_are_instructions(open_app: OpenApp) -> None:
    app = await open_app()
    mark = find(app, QAbstractButton, "composerInstructions")
    button = find(app, QAbstractButton, "toggleInstructions")
    assert not mark.isVisible() and not button.isChecked()
    field = instructions(app)
    QTest.keyClicks(field, "B")
    assert button.isChecked()
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    assert not button.isChecked()
    QTest.keyClicks(field, "B")
    press(app, "instructionsSave")
    await settle()
    assert mark.isVisible() and not field.isVisible()
    press(app, "composerInstructions")
    assert field.isVisible()


async def test_what_is_typed_stays_as_it_is_typed(open_app: OpenApp, engine: FakeEngine) -> None:
    """A blank at the end is no part of the instructions, and no reason to touch the field."""
    app = await open_app()
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    field = instructions(app)
    QTest.keyClicks(field, " Be ")
    await app.parts.chats.refresh()
    await app.parts.chat.show_again(app.parts.chat_list.chats[0].id)
    assert field.toPlainText() == " Be " and app.parts.chat.instructions == "Be"
    QTest.keyClicks(field, "brief")
    assert field.toPlainText() == " Be brief"


async def test_the_field_grows_with_its_lines_and_shows_all_of_them(open_app: OpenApp) -> None:
    app = await open_app()
    field = app.window.page.composer.text
    for text in ("one", "two", "three"):
        QTest.keyClicks(field, text)
        QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        await settle()
        assert field.firstVisibleBlock().blockNumber() == 0
        assert not field.verticalScrollBar().isVisible()
        assert field.cursorRect().bottom() <= field.viewport().height()
    field.setPlainText("word " * 60)
    await settle()
    assert field.verticalScrollBar().value() == 0 and not field.verticalScrollBar().isVisible()
    field.setPlainText("line\n" * 20)
    field.moveCursor(QTextCursor.MoveOperation.End)
    await settle()
    assert field.verticalScrollBar().maximum() > 0
    assert field.viewport().rect().contains(field.cursorRect().center())
