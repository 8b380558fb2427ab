"""Folders of chats in the window: made, filled, folded, renamed and deleted."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QLineEdit, QListView, QMenu

from core.api.reply_format import ReplyFormat
from desktop.app import App
from desktop.chats.chat_list import CHAT_MIME, INSIDE_ROLE, ChatList
from desktop.chats.list_views import ChatsView
from desktop.store.settings import Preset, PresetSettings
from desktop.store.tables.records import Chat, Folder
from tests.desktop.chats.test_chat_list import current, fill, open_chat, rows, shows
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, words

JSON = ReplyFormat(kind="json")
POET = Preset(name="Poet", system="In verse.", format=JSON, values={"sampling.temperature": 0.5})


def entries(menu: QMenu) -> list[str]:
    return [each.text() for each in menu.actions()]


def choose(menu: QMenu, text: str) -> None:
    (entry,) = [each for each in menu.actions() if each.text() == text]
    entry.trigger()


def move_menu(app: App) -> QMenu:
    find(app, QMenu, "chatMenu").aboutToShow.emit()
    return find(app, QMenu, "moveMenu")


def folder_menu(app: App, name: str) -> QMenu:
    view = find(app, QListView, "chatList")
    place = view.visualRect(view.model().index(rows(app).index(name), 0)).center()
    view.customContextMenuRequested.emit(place)
    menu = find(app, QMenu, "folderMenu")
    menu.hide()
    return menu


def name_it(app: App, name: str) -> None:
    view = find(app, QListView, "chatList")
    editor = next(each for each in view.findChildren(QLineEdit) if each.isVisible())
    editor.setText(name)
    QTest.keyClick(editor, Qt.Key.Key_Return)


async def with_folder(open_app: OpenApp) -> App:
    """Apples, the shown chat, is in the folder Fruit; Nuts is in none."""
    app = await open_app()
    await fill(app, {"Apples": 0.0, "Nuts": 1e-5})
    open_chat(app, "Apples")
    await until(lambda: current(app) == "Apples")
    choose(move_menu(app), "New folder")
    await until(lambda: current(app) == "New folder")
    name_it(app, "Fruit")
    await until(lambda: "Fruit" in rows(app))
    return app


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(with_folder(open_app))


def test_the_list_with_folders_is_a_proper_model(qloop: Loop) -> None:
    chats = ChatList()
    mode = QAbstractItemModelTester.FailureReportingMode.Warning
    QAbstractItemModelTester(chats, mode, chats)
    full, empty = Folder(1, "Work"), Folder(2, "Play", folded=True)
    inside = Chat(7, "House #Tax", 0, 9e9, folder=1)
    pinned = Chat(8, "Pin", 0, 9e9, pinned=True, folder=1)
    lost = Chat(9, "Lost", 0, 9e9, folder=3)
    chats.show([inside, pinned, lost], [empty, full])
    assert chats.shown == ["Pinned", pinned, empty, full, inside, "Today", lost]
    assert [bool(chats.index(at).data(INSIDE_ROLE)) for at in (1, 4, 6)] == [False, True, False]
    spoken = chats.index_of_folder(1).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Work, folder, 2 chats, open"
    chats.show(chats.chats, [Folder(1, "Work", folded=True)])
    assert inside not in chats.shown and not chats.index_of(7).isValid()
    # A search opens every folder with a match, and finds folders by their names.
    chats.search("#tax")
    assert [getattr(row, "id", row) for row in chats.shown] == [1, 7]
    assert chats.first() == chats.index_of(7)
    chats.search("wor")
    assert [getattr(row, "id", row) for row in chats.shown] == [1]
    assert not chats.first().isValid()


async def test_a_folder_is_made_named_and_deleted_and_its_chats_stay(app: App) -> None:
    assert rows(app) == ["Fruit", "Apples", "Today", "Nuts"]
    view = find(app, QListView, "chatList")
    view.setCurrentIndex(view.model().index(1, 0))
    assert entries(move_menu(app)) == ["Fruit", "No folder", "", "New folder"]
    view.setCurrentIndex(view.model().index(0, 0))
    assert not app.window.actions_by_name["actionMove"].isEnabled()
    press(app, "deleteChat")
    await until(lambda: rows(app) == ["Today", "Apples", "Nuts"])
    press(app, "toastAction")
    await until(lambda: rows(app) == ["Fruit", "Apples", "Today", "Nuts"])
    assert shows(app, "Apples")


async def test_a_moved_chat_that_is_pinned_stays_at_the_top(app: App) -> None:
    chats, folders = app.parts.chat_list, app.parts.folders_of_chats
    (nuts,) = [each.id for each in chats.chats if each.title == "Nuts"]
    app.parts.chats.pin(nuts, True)
    await until(lambda: rows(app)[:2] == ["Pinned", "Nuts"])
    folders.move(nuts, next(iter(chats.folders)))
    await until(lambda: words(app, "toastText").startswith("Moved to Fruit."))
    assert rows(app)[:2] == ["Pinned", "Nuts"] and all(each.folder for each in chats.chats)
    press(app, "toastAction")
    await until(lambda: not all(each.folder for each in chats.chats))


async def test_chats_are_dragged_into_a_folder_and_out_of_it(app: App) -> None:
    view = find(app, ChatsView, "chatList")

    def drop(title: str, at: QPointF) -> None:
        model = app.parts.chat_list
        data = model.mimeData([model.index(rows(app).index(title))])
        left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        view.dropEvent(QDropEvent(at, Qt.DropAction.MoveAction, data, left, none))

    def row(title: str) -> QPointF:
        return QPointF(view.visualRect(view.model().index(rows(app).index(title), 0)).center())

    drop("Nuts", row("Fruit"))
    await until(lambda: rows(app) == ["Fruit", "Apples", "Nuts"])
    drop("Apples", QPointF(view.viewport().rect().bottomLeft()))
    await until(lambda: rows(app) == ["Fruit", "Nuts", "Today", "Apples"])
    drop("Apples", row("Nuts"))
    await until(lambda: rows(app) == ["Fruit", "Apples", "Nuts"])
    # Of another program: no chat.
    for text in (b"", b"99", b"x", b"9" * 30):
        data = QMimeData()
        data.setData(CHAT_MIME, text)
        app.parts.chat_list.drop(data, view.currentIndex())
    assert rows(app) == ["Fruit", "Apples", "Nuts"]


async def test_keys_fold_a_folder_and_stay_on_it(app: App) -> None:
    view = find(app, QListView, "chatList")
    app.window.activateWindow()
    view.setFocus()
    view.setCurrentIndex(view.model().index(0, 0))
    QTest.keyClick(view, Qt.Key.Key_Left)
    await until(lambda: rows(app) == ["Fruit", "Today", "Nuts"])
    assert current(app) == "Fruit" and shows(app, "Apples")
    QTest.keyClick(view, Qt.Key.Key_Right)
    await until(lambda: rows(app) == ["Fruit", "Apples", "Today", "Nuts"])
    assert current(app) == "Fruit"
    place = view.visualRect(view.model().index(0, 0)).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    await until(lambda: rows(app) == ["Fruit", "Today", "Nuts"])
    QTest.keyClick(view, Qt.Key.Key_Delete)
    await until(lambda: rows(app) == ["Today", "Apples", "Nuts"])


async def test_new_chats_in_a_folder_begin_with_its_preset(app: App, engine: FakeEngine) -> None:
    app.parts.settings.put(presets=PresetSettings(presets=(POET,)))
    menu = folder_menu(app, "Fruit")
    begins = find(app, QMenu, "folderBegin")
    shown = ["The default for new chats", "Poet", "", "The settings of the chat on screen"]
    assert entries(begins) == shown
    choose(begins, "Poet")
    (folder,) = app.parts.chat_list.folders
    await until(lambda: app.parts.chat_list.folders[folder].begin == POET.begin)
    choose(menu, "New chat in this folder")
    await until(lambda: words(app, "chatTitle") == "New chat in Fruit")
    assert app.parts.chat.instructions == "In verse." and app.parts.chat.format == JSON
    assert app.parts.chat_settings.differences() == []
    asked = await send(app, engine, "Pears")
    assert asked.command.sampling.temperature == 0.5
    asked.finish("{}")
    await ended(app)
    await until(lambda: rows(app) == ["Fruit", "Pears", "Apples", "Today", "Nuts"])
    # Elsewhere nothing of it is left.
    press(app, "newChat")
    await until(lambda: words(app, "chatTitle") == "New chat")
    assert app.parts.chat.instructions == "" and app.parts.chat.own == {}
    # What it was copied from may change: the folder keeps what was chosen.
    app.parts.settings.put(presets=PresetSettings())
    folder_menu(app, "Fruit")
    assert entries(begins)[1] == "Poet, as it was chosen"


async def test_a_new_chat_outlives_its_folder(app: App, engine: FakeEngine) -> None:
    choose(folder_menu(app, "Fruit"), "New chat in this folder")
    await until(lambda: words(app, "chatTitle") == "New chat in Fruit")
    choose(folder_menu(app, "Fruit"), "Delete the folder, keep its chats")
    await until(lambda: words(app, "chatTitle") == "New chat")
    (await send(app, engine, "Pears")).finish("Yes")
    await ended(app)
    await until(lambda: rows(app) == ["Today", "Pears", "Apples", "Nuts"])
