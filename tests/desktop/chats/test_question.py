"""Questions before something is lost for good: no slip of the hand answers them with yes."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from desktop.app import App
from desktop.store.tables import chats
from desktop.widgets.dialogs import LinkDialog
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import child, ended, find, press, send, settle, words

LEFT = Qt.MouseButton.LeftButton


async def with_trash(open_app: OpenApp, engine: FakeEngine, titles: tuple[str, ...]) -> App:
    app = await open_app()
    for title in titles:
        app.parts.chat.open(None)
        (await send(app, engine, title)).finish("Hi")
        await ended(app)
    for chat in app.parts.chat_list.chats:
        app.parts.chats.delete(chat.id)
    await until(lambda: len(app.parts.chats.trash.chats) == len(titles))
    press(app, "openTrash")
    await settle()
    return app


def under(app: App, place: QPoint) -> QWidget:
    found = app.window.childAt(place)
    assert found is not None
    return found


def middle(app: App, name: str) -> QPoint:
    button = find(app, QPushButton, name)
    return button.mapTo(app.window, button.rect().center())


def double_click(app: App, name: str) -> None:
    """Press the button twice without moving the pointer."""
    place = middle(app, name)
    for _ in range(2):
        hit = under(app, place)
        QTest.mouseClick(hit, LEFT, pos=hit.mapFrom(app.window, place))


async def test_a_double_click_deletes_nothing(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await with_trash(open_app, engine, ("Apples", "Nuts"))
    for trigger in ("deleteAllForGood", "deleteForGood"):
        place = middle(app, trigger)
        press(app, trigger)
        assert under(app, place).objectName() == "deleteTrashNo"
        press(app, "deleteTrashNo")
        double_click(app, trigger)
        await settle()
        assert words(app, "deleteTrashWords") == ""
        assert len(await app.parts.database.run(chats.trashed)) == 2
    # Nor does the second click on the answer that deletes count.
    press(app, "deleteAllForGood")
    yes = find(app, QPushButton, "deleteTrashYes")
    QTest.mouseClick(yes, LEFT)
    assert yes.isVisible()
    await asyncio.sleep(QApplication.doubleClickInterval() / 1000 + 0.1)
    QTest.mouseClick(yes, LEFT)
    await until(lambda: not app.parts.chats.trash.chats)


async def test_escape_and_the_default_keep_deleted_chats(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await with_trash(open_app, engine, ("Apples",))
    for where in ("deleteTrashNo", "trashList", "composerText"):
        press(app, "deleteAllForGood")
        assert find(app, QPushButton, "deleteTrashNo").hasFocus()
        find(app, QWidget, where).setFocus()
        QTest.keyClick(find(app, QWidget, where), Qt.Key.Key_Escape)
        assert words(app, "deleteTrashWords") == ""
    press(app, "deleteAllForGood")
    QTest.keyClick(find(app, QPushButton, "deleteTrashNo"), Qt.Key.Key_Space)
    assert words(app, "deleteTrashWords") == ""
    # The list of chats comes back, and with it no question that was asked before.
    press(app, "deleteAllForGood")
    press(app, "leaveTrash")
    press(app, "openTrash")
    assert words(app, "deleteTrashWords") == ""
    assert len(await app.parts.database.run(chats.trashed)) == 1


async def test_escape_keeps_all_data_and_stops_no_reply(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "Hello")
    app.window.actions_by_name["actionDeleteAll"].trigger()
    assert words(app, "deleteAllWords")
    QTest.keyClick(app.window.page.composer.text, Qt.Key.Key_Escape)
    assert words(app, "deleteAllWords") == "" and not asked.cancelled
    asked.finish("Hi")
    await ended(app)
    assert len(app.parts.chat_list.chats) == 1


async def test_a_question_is_seen_whole_and_a_double_click_opens_no_link(app: App) -> None:
    app.window.actions_by_name["actionDeleteAll"].trigger()
    for size in ((1280, 820), (620, 420), (320, 300)):
        app.window.resize(*size)
        await settle()
        bar = find(app, QWidget, "deleteAllBar")
        assert app.window.page.rect().contains(bar.geometry())
    app.window.resize(1280, 820)
    press(app, "deleteAllNo")
    app.window.dialogs.open_link("https://example.org/")
    await until(lambda: app.window.findChild(LinkDialog))
    dialog = child(app.window, LinkDialog)
    opens = child(dialog, QPushButton, "linkOpen")
    QTest.mouseClick(opens, LEFT)
    assert dialog.isVisible()
    dialog.reject()
    await until(lambda: app.window.findChild(LinkDialog) is None)
