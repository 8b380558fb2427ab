from __future__ import annotations

import random
import sqlite3

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit, QListView

from desktop.app import App
from desktop.chat.markdown.text_selection import fields_in
from desktop.search import index
from desktop.search.search_dialog import SearchDialog
from desktop.store.tables import chats, messages
from tests.desktop.conftest import until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, settle, words
from tests.desktop.loop_watch import LoopWatch


async def look_for(app: App, text: str) -> SearchDialog:
    app.window.actions_by_name["actionSearchMessages"].trigger()
    dialog = app.window.findChildren(SearchDialog)[0]
    dialog.field.setText(text)
    search = app.parts.search
    await until(lambda: not search.is_searching and not search.missing)
    await settle()
    return dialog


def marks(app: App) -> list[str]:
    return [
        mark.cursor.selectedText()
        for row in app.window.page.transcript.row_widgets
        for field in fields_in(row)
        for mark in field.extraSelections()
    ]


async def test_U1_a_hit_is_shown_in_its_branch(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "Which bird?")).finish("A **grey heron**.")
    await ended(app)
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 2)
    engine.asked[1].finish("A stork.")
    await ended(app)
    (await send(app, engine, "And its food?")).finish("Frogs.")
    await ended(app)
    app.parts.chat.open(None)
    await until(lambda: app.parts.transcript.chat is None)
    dialog = await look_for(app, "HERON")
    await until(lambda: len(dialog.hits.shown) == 1)
    assert "".join(dialog.hits.shown[0].extract) == "A **grey heron**."
    QTest.keyClick(dialog.field, Qt.Key.Key_Down)
    QTest.keyClick(find(app, QListView, "searchHits"), Qt.Key.Key_Return)
    await until(lambda: marks(app))
    assert not dialog.isVisible()
    assert marks(app) == ["heron"]
    assert [row.text for row in app.parts.transcript.rows] == ["Which bird?", "A **grey heron**."]
    assert words(app, "findCount") == "1 of 1"
    assert find(app, QLineEdit, "findText").text() == "heron"


async def test_U1_what_comes_and_goes_while_the_window_is_open(
    app: App, engine: FakeEngine
) -> None:
    (await send(app, engine, "One owl")).finish("An owl, yes.")
    await ended(app)
    chat = app.parts.transcript.chat
    dialog = await look_for(app, "owl")
    await until(lambda: len(dialog.hits.shown) == 3)
    assert [hit.message > 0 for hit in dialog.hits.shown] == [False, True, True]
    assert words(app, "searchWords") == "3 matches"
    find(app, QComboBox, "searchChat").setCurrentIndex(1)
    await until(lambda: len(dialog.hits.shown) == 2)
    press(app, "searchPictures")
    await until(lambda: not dialog.hits.shown)
    await until(lambda: words(app, "searchWords") == "Nothing was found.")
    press(app, "searchPictures")
    await until(lambda: len(dialog.hits.shown) == 2)
    assert chat is not None
    app.parts.chats.delete(chat)
    await until(lambda: app.parts.chats.trash.chats)
    app.parts.deletion.delete_for_good()
    await until(lambda: not app.parts.chats.trash.chats)
    await until(lambda: not dialog.hits.shown)
    await app.parts.tasks.close()
    for path in app.parts.folders.data.glob("search.db*"):
        assert b"owl" not in path.read_bytes()


async def test_an_index_damaged_in_use_is_filled_again(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "One owl")).finish("Hoo.")
    await ended(app)
    dialog = await look_for(app, "hoo")
    await until(lambda: len(dialog.hits.shown) == 1)
    search, path = app.parts.search, app.parts.folders.search_index
    await search._in_thread(search._disconnect)
    path.write_bytes(path.read_bytes()[:100] + bytes(range(256)) * 64)
    dialog.field.setText("owl")
    await until(lambda: len(dialog.hits.shown) == 2)


async def test_deleting_does_not_wait_for_indexing(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "One owl")).finish("Hoo.")
    await ended(app)
    await look_for(app, "owl")
    search, chat = app.parts.search, app.parts.transcript.chat
    assert chat is not None
    async with search._updating:
        app.parts.chats.delete(chat)
        await until(lambda: app.parts.chats.trash.chats)
        await app.parts.deletion.purge(chat)
        assert await search._run(index.newest) == 0


async def test_a_new_chat_has_no_matches(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "One owl")).finish("Hoo.")
    await ended(app)
    app.parts.chat.open(None)
    await until(lambda: app.parts.chats.shown is None)
    dialog = await look_for(app, "hoo")
    await until(lambda: dialog.hits.shown)
    find(app, QComboBox, "searchChat").setCurrentIndex(1)
    await until(lambda: words(app, "searchWords") == "Nothing was found.")


async def test_titles_lead_to_messages(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "One owl")).finish("Hoo.")
    await ended(app)
    app.window.side_bar.search.setText("hoo")
    await until(lambda: words(app, "searchMessages"))
    press(app, "searchMessages")
    dialog = app.window.findChildren(SearchDialog)[0]
    await until(lambda: dialog.hits.shown)
    assert dialog.field.text() == "hoo"
    assert dialog.hits.shown[0].extract.match == "Hoo"


@pytest.mark.slow
async def test_H8_search_of_100_000_messages(app: App, engine: FakeEngine) -> None:
    random.seed(5)
    vocabulary = ["".join(random.choices("abcdefghij", k=6)) for _ in range(5_000)]

    def fill(connection: sqlite3.Connection) -> None:
        for number in range(1_000):
            chat = chats.create(connection, f"chat {number}")
            connection.executemany(
                "INSERT INTO messages (chat, text, created, chosen) VALUES (?, ?, 1.0, 1)",
                [(chat, " ".join(random.choices(vocabulary, k=60))) for _ in range(100)],
            )
        last = chats.create(connection, "the last")
        messages.add_message(connection, last, None, "the needle é in it")

    await app.parts.database.run(fill)
    search = app.parts.search
    with LoopWatch() as watch:
        watch.doing = "indexing"
        dialog = await look_for(app, "needle")
        await until(lambda: search.models == [] and not search.missing)
        watch.doing = "typing"
        for text in ("n", "ne", "need", "eedle é", vocabulary[7], vocabulary[7][1:], "zzzzzz"):
            dialog.field.setText(text)
            await until(lambda: search.is_searching)
            await until(lambda: not search.is_searching)
            await settle()
        assert search.hits == []
        dialog.field.setText("eedle")
        await until(lambda: search.hits)
    assert [hit.extract.match for hit in search.hits] == ["eedle"]
