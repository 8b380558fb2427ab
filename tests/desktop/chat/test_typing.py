"""Typed text is stored within half a second, with nothing to press; its tokens are counted."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QPlainTextEdit

from core.api.chat import SystemMessage
from core.api.stats import RequestStats
from desktop.app import App
from desktop.chat import drafts
from desktop.chat.compose.composer import size_text
from desktop.chat.context_fill import GLUE_TOKENS, DraftTokens
from desktop.store.folders import Folders
from tests.desktop.conftest import PATIENCE_S, OpenApp, until
from tests.desktop.fake_engine import Asked, FakeEngine, model_info, png
from tests.desktop.hands import drop, ended, files, find, press, send, settle, type_in, words


def stored(folders: Folders, query: str) -> list[str]:
    with closing(sqlite3.connect(folders.database)) as connection:
        return [str(text) for (text,) in connection.execute(query)]


def instructions(app: App) -> QPlainTextEdit:
    field = find(app, QPlainTextEdit, "instructionsText")
    if not field.isVisible():
        press(app, "toggleInstructions")
    return field


def system_of(asked: Asked) -> object:
    return asked.conversation.messages[0]


async def answered(app: App, asked: Asked) -> None:
    asked.finish("Hi")
    await ended(app)


async def type_until(field: QPlainTextEdit, done: Callable[[], object]) -> None:
    """Without a pause in which anything could be stored after one."""
    for _ in range(int(PATIENCE_S)):
        QTest.keyClicks(field, "on and ")
        await asyncio.sleep(0.05)
        if done():
            return
    raise AssertionError("steady typing is never stored")


async def test_steady_typing_is_stored_while_it_goes_on(
    open_app: OpenApp, engine: FakeEngine, folders: Folders
) -> None:
    assert drafts.STORED_AFTER_MS <= 500
    app = await open_app()
    field = app.window.page.composer.text
    await type_until(field, lambda: any(stored(folders, "SELECT text FROM drafts")))
    assert stored(folders, "SELECT text FROM drafts")[0].startswith("on and")
    query = "SELECT system FROM drafts WHERE system != ''"
    await type_until(instructions(app), lambda: stored(folders, query))
    await answered(app, await send(app, engine, "Hello"))
    instructions(app).clear()
    query = "SELECT system FROM chats WHERE system LIKE 'on and%'"
    assert stored(folders, query)
    await until(lambda: not stored(folders, query))
    await type_until(instructions(app), lambda: stored(folders, query))


async def test_instructions_are_used_from_the_next_message_on_in_their_chat(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    await header_and_composer_show_that_there_are_any(app)
    QTest.keyClicks(instructions(app), "e brief.")
    first = await send(app, engine, "Hello")
    assert system_of(first) == SystemMessage(text="Be brief.")
    await answered(app, first)
    # Not only sending uses them.
    QTest.keyClicks(instructions(app), " Be kind.")
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 2)
    assert system_of(engine.asked[1]) == SystemMessage(text="Be brief. Be kind.")
    await answered(app, engine.asked[1])
    await a_blank_at_the_end_stays_while_it_is_typed(app)
    chat = app.parts.transcript.chat
    app.parts.chat.open(None)
    assert instructions(app).toPlainText() == ""
    QTest.keyClicks(instructions(app), "Be long.")
    app.parts.chat.open(chat)
    await until(lambda: instructions(app).toPlainText() == "Be brief")
    app.leave()
    await app.gone.wait()
    again = await open_app(FakeEngine())
    assert instructions(again).toPlainText() == "Be long."
    again.parts.chat.open(chat)
    await until(lambda: instructions(again).toPlainText() == "Be brief")


async def header_and_composer_show_that_there_are_any(app: App) -> None:
    mark = find(app, QAbstractButton, "composerInstructions")
    toggle = find(app, QAbstractButton, "toggleInstructions")
    assert not mark.isVisible() and not toggle.isChecked()
    field = instructions(app)
    QTest.keyClicks(field, "B")
    assert toggle.isChecked()
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    assert not toggle.isChecked()
    QTest.keyClicks(field, "B")
    press(app, "instructionsSave")
    await settle()
    assert mark.isVisible() and not field.isVisible()
    press(app, "composerInstructions")
    assert field.isVisible()


async def a_blank_at_the_end_stays_while_it_is_typed(app: App) -> None:
    """It is no part of the instructions, and no reason to touch the field."""
    field = instructions(app)
    field.selectAll()
    QTest.keyClicks(field, " Be ")
    await app.parts.chats.refresh()
    await app.parts.chat.show_again(app.parts.chat_list.chats[0].id)
    assert field.toPlainText() == " Be " and app.parts.chat.instructions == "Be"
    QTest.keyClicks(field, "brief")
    assert field.toPlainText() == " Be brief"


async def test_tokens_and_what_is_left_follow_what_is_typed(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await the_field_grows_with_its_lines(app.window.page.composer.text)
    type_in(app, "")
    await until(lambda: words(app, "composerTokens") == "4,096 tokens left")
    type_in(app, "five words are typed here")
    left = 4096 - 5 - GLUE_TOKENS
    await until(lambda: words(app, "composerTokens") == f"5 tokens · {left:,} left")
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: words(app, "composerTokens") == f"9 tokens · {left - 4:,} left")
    stats = RequestStats(prompt_tokens=1000, reply_tokens=96, message_starts=(10, 500))
    (await send(app, engine, "one")).finish("Yes.", stats=stats)
    await ended(app)
    # The chat has what the engine counted of it, and the field is empty.
    await until(lambda: words(app, "composerTokens") == "3,000 tokens left")
    type_in(app, "word " * 3500)
    over = 3500 + GLUE_TOKENS - 3000
    said = f"3,500 tokens, {over} more than the context has left"
    await until(lambda: words(app, "composerTokens") == said)
    assert size_text(DraftTokens(0, -24_810)) == "24,810 tokens more than the context holds"
    assert find(app, QLabel, "composerTokens").property("class") == "warning small"


async def the_field_grows_with_its_lines(field: QPlainTextEdit) -> None:
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


async def test_one_text_is_counted_at_a_time_then_the_last_and_again_for_another_model(
    app: App, engine: FakeEngine
) -> None:
    await until(lambda: app.parts.engine.model is not None)
    size = app.parts.draft_size
    engine.may_count.clear()
    for number in range(1, 50):
        size.count("word " * number)
        await until(lambda: engine.counted)
    unknown = size.size
    assert engine.counted == ["word "] and unknown is None
    engine.may_count.set()
    await until(lambda: len(engine.counted) == 2)
    assert engine.counted == ["word ", "word " * 49]
    await until(lambda: size.size == DraftTokens(49, 4096 - 49 - GLUE_TOKENS))
    engine.model_to_load = model_info(name="other", tokenizer="u" * 64)
    app.parts.settings.load()
    await until(lambda: len(engine.counted) == 3)
    await until(lambda: app.parts.draft_size.size)
