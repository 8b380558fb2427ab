from __future__ import annotations

import sqlite3
import time
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QLabel,
    QLineEdit,
    QListView,
    QMenu,
    QPushButton,
)

from desktop.app import App
from desktop.store.tables import chats, messages
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import find, press, settle, type_in, words
from tests.desktop.loop_watch import LoopWatch

DAY_S = 86_400.0
MANY = 2_000


async def fill(app: App, titles: dict[str, float]) -> None:
    """Each with the days since its last use."""

    def write(connection: sqlite3.Connection) -> None:
        for title, days in titles.items():
            turn = messages.append_turn(connection, None, title)
            used = time.time() - days * DAY_S
            connection.execute("UPDATE chats SET used = ? WHERE id = ?", (used, turn.chat))
            connection.execute("UPDATE replies SET state = 'complete', finish_reason = 'stop'")

    await app.parts.database.run(write)
    await app.parts.chats.refresh()


async def with_chats(open_app: OpenApp) -> App:
    app = await open_app()
    await fill(app, {"Apples": 0.0, "Pears": 1.0, "Plums & quinces": 4.0, "Nuts": 5.0})
    return app


def rows(app: App) -> list[str]:
    model = find(app, QListView, "chatList").model()
    return [model.index(at, 0).data() for at in range(model.rowCount())]


def current(app: App) -> str | None:
    title: str | None = find(app, QListView, "chatList").currentIndex().data()
    return title


def shows(app: App, title: str) -> bool:
    return words(app, "chatTitle") == title and bool(app.parts.transcript.rows)


def is_gone(app: App, title: str) -> bool:
    return title not in [each.title for each in app.parts.chat_list.chats]


def open_chat(app: App, title: str) -> int:
    (chat,) = [each.id for each in app.parts.chat_list.chats if each.title == title]
    app.parts.chat.open(chat)
    return chat


async def test_chats_are_under_the_day_of_their_last_use_or_pinned(open_app: OpenApp) -> None:
    app = await with_chats(open_app)
    days = ["Today", "Apples", "Yesterday", "Pears", "Last 7 days", "Plums & quinces", "Nuts"]
    assert rows(app) == days
    open_chat(app, "Nuts")
    await until(lambda: current(app) == "Nuts")
    app.window.actions_by_name["actionPin"].trigger()
    await until(lambda: rows(app)[:2] == ["Pinned", "Nuts"])
    assert rows(app)[2:] == days[:-1]
    assert current(app) == "Nuts"
    menu = find(app, QMenu, "chatMenu")
    menu.aboutToShow.emit()
    assert [each.text() for each in menu.actions()] == [
        "Unpin",
        "Move to folder",
        "Rename",
        "Delete",
    ]
    menu.actions()[0].trigger()
    await until(lambda: rows(app) == days)


async def test_keys_go_over_heads_and_stay_in_the_list(open_app: OpenApp) -> None:
    app = await with_chats(open_app)
    open_chat(app, "Apples")
    await until(lambda: current(app) == "Apples")
    app.window.activateWindow()
    view = find(app, QListView, "chatList")
    # A head can't be selected.
    place = view.visualRect(view.model().index(2, 0)).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    await settle()
    assert rows(app)[2] == "Yesterday" and current(app) == "Apples"
    assert not view.selectionModel().isSelected(view.model().index(2, 0))
    view.setFocus()
    await until(view.hasFocus)
    for key, title in (
        (Qt.Key.Key_Down, "Pears"),
        (Qt.Key.Key_Down, "Plums & quinces"),
        (Qt.Key.Key_Up, "Pears"),
        (Qt.Key.Key_Home, "Apples"),
        (Qt.Key.Key_End, "Nuts"),
        (Qt.Key.Key_PageUp, "Apples"),
        (Qt.Key.Key_PageDown, "Nuts"),
    ):
        QTest.keyClick(view, key)
        assert current(app) == title and view.hasFocus()
        await until(partial(shows, app, title))
        assert current(app) == title and view.hasFocus()
    QTest.keyClick(view, Qt.Key.Key_Return)
    await until(app.window.page.composer.text.hasFocus)


async def test_a_search_leaves_the_titles_that_contain_it(open_app: OpenApp) -> None:
    app = await with_chats(open_app)
    open_chat(app, "Apples")
    await until(lambda: current(app) == "Apples")
    app.window.activateWindow()
    app.window.actions_by_name["actionSearchChats"].trigger()
    field = find(app, QLineEdit, "chatSearch")
    await until(field.hasFocus)
    QTest.keyClicks(field, "P")
    assert "Pears" in rows(app) and "Nuts" not in rows(app)
    QTest.keyClicks(field, "L")
    assert rows(app) == ["Today", "Apples", "Last 7 days", "Plums & quinces"]
    assert current(app) == "Apples" and words(app, "chatSearchNone") == ""
    QTest.keyClicks(field, "u")
    assert rows(app) == ["Last 7 days", "Plums & quinces"] and current(app) is None
    QTest.keyClicks(field, "x")
    assert rows(app) == []
    assert (
        words(app, "chatSearchNone")
        == "No title contains \N{LEFT DOUBLE QUOTATION MARK}PLux\N{RIGHT DOUBLE QUOTATION MARK}."
    )
    QTest.keyClicks(field, "y")
    assert "PLuxy" in words(app, "chatSearchNone")
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert len(rows(app)) == 7 and field.text() == "" and words(app, "chatSearchNone") == ""
    assert current(app) == "Apples"
    app.window.actions_by_name["actionSearchChats"].trigger()
    await until(field.hasFocus)
    QTest.keyClicks(field, "quin")
    QTest.keyClick(field, Qt.Key.Key_Down)
    await until(lambda: words(app, "chatTitle") == "Plums & quinces")
    assert find(app, QListView, "chatList").hasFocus()
    # A reply that ends elsewhere reads the list anew; what was searched for stays.
    await app.parts.chats.refresh()
    assert rows(app) == ["Last 7 days", "Plums & quinces"] and current(app) == "Plums & quinces"


async def test_escape_in_the_search_stops_no_reply(app: App, engine: FakeEngine) -> None:
    type_in(app, "Hello")
    app.window.page.composer.text.send_asked.emit()
    await until(lambda: engine.asked)
    app.window.activateWindow()
    field = find(app, QLineEdit, "chatSearch")
    field.setFocus()
    await until(field.hasFocus)
    QTest.keyClick(field, Qt.Key.Key_Escape)
    await settle()
    assert not engine.asked[0].cancelled
    engine.asked[0].finish("Hi")
    await until(lambda: app.parts.chat.running is None)


async def test_H8_two_thousand_chats_keep_no_key_waiting(app: App) -> None:
    await fill(app, {f"Chat number {number}": number / 100 for number in range(MANY)})
    assert len([row for row in rows(app) if row.startswith("Chat number")]) == MANY
    app.window.activateWindow()
    field, view = find(app, QLineEdit, "chatSearch"), find(app, QListView, "chatList")
    with LoopWatch() as watch:
        watch.doing = "opening"
        open_chat(app, "Chat number 1999")
        await until(lambda: current(app) == "Chat number 1999")
        watch.doing = "searching"
        for letter in "number 19":
            QTest.keyClicks(field, letter)
            await settle()
        watch.doing = "clearing"
        field.clear()
        await settle()
        watch.doing = "keys"
        for key in (Qt.Key.Key_Home, Qt.Key.Key_PageDown, Qt.Key.Key_End):
            QTest.keyClick(view, key)
            await settle()
        watch.doing = "pinning"
        app.window.side_bar.pin_current()
        await until(lambda: rows(app)[0] == "Pinned")
        watch.doing = "deleting"
        app.window.side_bar.delete_current()
        await until(lambda: app.parts.chats.trash.chats)


async def test_a_title_is_renamed_in_a_field_that_shows_it(
    open_app: OpenApp,
) -> None:
    app = await with_chats(open_app)
    view = find(app, QListView, "chatList")
    view.setCurrentIndex(view.model().index(1, 0))
    await until(find(app, QAbstractButton, "renameChat").isEnabled)
    # Once the chat is open, nothing draws the list again, which would close the field.
    await until(lambda: app.parts.transcript.chat == app.parts.chats.shown is not None)
    await settle()
    press(app, "renameChat")
    (field,) = view.viewport().findChildren(QLineEdit)
    # What the style sheet leaves for the words.
    frame = field.sizeHint().height() - field.fontMetrics().height()
    assert field.height() - frame >= field.fontMetrics().height() - 1
    field.setText("Cherries")
    QTest.keyClick(field, Qt.Key.Key_Return)
    await until(lambda: "Cherries" in rows(app))


# The trash.


async def delete(app: App, *titles: str) -> None:
    for title in titles:
        (chat,) = [each.id for each in app.parts.chat_list.chats if each.title == title]
        app.parts.chats.delete(chat)
        await until(partial(is_gone, app, title))


def has_fewer_rows(app: App, than: int) -> bool:
    return len(trash_rows(app)) < than


def trash_rows(app: App) -> list[str]:
    model = find(app, QListView, "trashList").model()
    return [model.index(at, 0).data() for at in range(model.rowCount())]


async def test_each_deleted_chat_can_be_restored(open_app: OpenApp) -> None:
    app = await with_chats(open_app)
    row = find(app, QPushButton, "openTrash")
    assert not row.isVisible()
    await delete(app, "Apples", "Nuts", "Pears")
    assert row.isVisible() and row.text() == "Trash (3)"
    assert words(app, "toastText") == "Moved to the trash, kept for 30 days: Pears"
    # There is room for one line.
    said = find(app, QLabel, "toastText")
    assert said.heightForWidth(said.width()) < 2 * said.fontMetrics().height()
    press(app, "openTrash")
    view = find(app, QListView, "trashList")
    assert view.isVisible() and not find(app, QListView, "chatList").isVisible()
    assert trash_rows(app) == ["Pears", "Nuts", "Apples"]
    view.setCurrentIndex(view.model().index(2, 0))
    press(app, "restoreChat")
    await until(lambda: trash_rows(app) == ["Pears", "Nuts"])
    # There may be more to restore; when there are none, the list comes back.
    assert view.isVisible()
    press(app, "restoreChat")
    await until(lambda: trash_rows(app) == ["Nuts"])
    press(app, "restoreChat")
    await until(find(app, QListView, "chatList").isVisible)
    assert len(app.parts.chat_list.chats) == 4 and not row.isVisible()
    # Undo brings back the chat that it was shown for.
    await delete(app, "Apples", "Nuts")
    press(app, "toastAction")
    await until(lambda: words(app, "chatTitle") == "Nuts")
    assert trash_rows(app) == ["Apples"]


async def test_a_chat_is_deleted_for_good_from_the_trash_alone(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await with_chats(open_app)
    await delete(app, "Apples", "Nuts")
    assert engine.forgets == []
    press(app, "openTrash")
    press(app, "deleteForGood")
    await settle()
    assert len(trash_rows(app)) == 2
    assert words(app, "deleteTrashWords") == (
        "Delete this chat for good, with its messages and pictures? This can't be undone."
    )
    # A question about one chat is not asked of another.
    view = find(app, QListView, "trashList")
    view.setCurrentIndex(view.model().index(1, 0))
    assert words(app, "deleteTrashWords") == ""
    # Undo stays until the chat is gone that it would restore.
    for at, undo in ((1, True), (0, False)):
        view.setCurrentIndex(view.model().index(at, 0))
        left = len(trash_rows(app))
        press(app, "deleteForGood")
        await settle()
        press(app, "deleteTrashYes")
        await until(partial(has_fewer_rows, app, left))
        assert app.window.toast.isVisible() == undo
    await until(lambda: len(engine.forgotten) == 2)
    assert find(app, QListView, "chatList").isVisible()


async def test_the_trash_and_all_data_are_emptied_after_a_second_word(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await with_chats(open_app)
    await delete(app, "Apples", "Nuts")
    press(app, "openTrash")
    press(app, "deleteAllForGood")
    assert words(app, "deleteTrashWords").startswith("Delete all 2 chats for good")
    press(app, "deleteTrashNo")
    assert words(app, "deleteTrashWords") == "" and len(trash_rows(app)) == 2
    press(app, "deleteAllForGood")
    press(app, "deleteTrashYes")
    await until(lambda: len(engine.forgotten) == 2)
    await until(find(app, QListView, "chatList").isVisible)
    listed = await app.parts.database.run(chats.trashed)
    assert listed == [] and len(app.parts.chat_list.chats) == 2
    await delete(app, "Pears")
    app.window.actions_by_name["actionDeleteAll"].trigger()
    said = words(app, "deleteAllWords")
    assert said.startswith("Delete 1 chat and 1 deleted chat for good, with all messages")
    press(app, "deleteAllNo")
    assert words(app, "deleteAllWords") == "" and len(app.parts.chat_list.chats) == 1
    app.window.actions_by_name["actionDeleteAll"].trigger()
    press(app, "deleteAllYes")
    await until(lambda: words(app, "toastText") == "All data is deleted.")
    assert await app.parts.database.run(chats.trashed) == []
    assert app.parts.chat_list.chats == [] and app.parts.transcript.rows == []
    assert not find(app, QPushButton, "openTrash").isVisible()
