from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QTextEdit,
)

from core.api.events import FinishReason
from desktop.app import App
from desktop.chat.compose.composer_text import ComposerText
from desktop.chat.markdown.block_text import BlockText
from desktop.pictures.picture_strip import PictureThumbnail
from desktop.widgets.plain import named
from desktop.window.sides import tab_stops
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import (
    drop,
    ended,
    files,
    find,
    press_key,
    send,
    settle,
    type_in,
    user_rows,
)


async def opened(open_app: OpenApp) -> App:
    app = await open_app()
    app.window.activateWindow()
    await until(app.window.page.composer.text.hasFocus)
    return app


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(opened(open_app))


def click(app: App, name: str) -> None:
    """Click with the mouse, which moves the focus to a control that takes it."""
    QTest.mouseClick(find(app, QAbstractButton, name), Qt.MouseButton.LeftButton)


def type_on(app: App, text: str) -> None:
    for letter in text:
        target = QApplication.focusWidget() or app.window
        QTest.keyClicks(target, letter)


async def writes_on(app: App) -> None:
    """Words typed now stand in the message field, all of them, and nothing else happens."""
    await settle()
    chats = len(app.parts.chat_list.chats)
    before = app.window.page.composer.text.toPlainText()
    type_on(app, "and now on")
    await settle()
    assert app.window.page.composer.text.toPlainText() == before + "and now on"
    assert len(app.parts.chat_list.chats) == chats
    assert app.window.page.composer.text.hasFocus()


def press_space(app: App, name: str) -> None:
    button = find(app, QAbstractButton, name)
    button.setFocus(Qt.FocusReason.TabFocusReason)
    assert button.hasFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)


@pytest.mark.parametrize("use", [click, press_space])
async def test_the_composer_has_the_focus_after_every_action(
    app: App, engine: FakeEngine, use: Callable[[App, str], None]
) -> None:

    async def asked(count: int, answer: str = "", reason: FinishReason = "stop") -> None:
        await until(lambda: len(engine.asked) == count)
        await writes_on(app)
        if answer:
            engine.asked[-1].say(answer)
            engine.asked[-1].finish(reason=reason)
            await ended(app)
            await settle()

    type_in(app, "Hello")
    use(app, "sendButton")
    await asked(1)
    use(app, "sendButton")  # stops the reply
    await ended(app)
    await writes_on(app)
    use(app, "regenerate")
    await asked(2, "Half", reason="cancelled")
    use(app, "continueReply")
    await asked(3, "An answer")
    use(app, "turnBack")
    await until(lambda: app.parts.transcript.rows[-1].text != "An answer")
    await writes_on(app)
    use(app, "editMessage")
    field = find(app, ComposerText, "editText")
    await until(field.hasFocus)
    type_on(app, " again")
    if use is click:
        click(app, "editSend")
    else:
        QTest.keyClick(field, Qt.Key.Key_Return)
    await asked(4, "Yes.")
    QTest.mouseClick(find(app, BlockText, ""), Qt.MouseButton.LeftButton)
    await writes_on(app)


async def answered(open_app: OpenApp, engine: FakeEngine) -> App:
    app = await opened(open_app)
    (await send(app, engine, "Hello")).finish("An answer")
    await ended(app)
    return app


async def test_after_leaving_an_edit(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "Hello")
    click(app, "editMessage")
    field = find(app, ComposerText, "editText")
    await until(field.isVisible)
    assert field.hasFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    await until(lambda: not shiboken6.isValid(field))
    await writes_on(app)
    assert not asked.cancelled and [row.row.text for row in user_rows(app)] == ["Hello"]
    asked.finish("An answer")
    await ended(app)


async def test_a_deleted_control_leaves_the_focus_to_the_composer(app: App) -> None:
    control = QLineEdit(app.window.page)
    control.show()
    control.setFocus()
    assert control.hasFocus()
    shiboken6.delete(control)
    await until(app.window.page.composer.text.hasFocus)


async def test_after_taking_a_picture_out_of_an_edit(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    (await send(app, engine, "Hello")).finish("An answer")
    await ended(app)
    click(app, "editMessage")
    field = find(app, ComposerText, "editText")
    await until(lambda: find(app, QAbstractButton, "pictureRemove").isVisible())
    click(app, "pictureRemove")
    await settle()
    type_on(app, " again")
    assert field.toPlainText() == "Hello again"
    assert app.window.page.composer.text.toPlainText() == ""


async def test_tab_goes_through_the_window_as_it_is_laid_out(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    (await send(app, engine, "Hello")).finish("An answer")
    await ended(app)
    await settle()
    find(app, QAbstractButton, "newChat").setFocus()
    reached: list[str] = []
    for _ in range(80):
        press_key_on_focus(Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        assert focused is not None
        if focused.objectName() == "newChat":
            break
        picture = isinstance(focused.parentWidget(), PictureThumbnail)
        reached.append("picture" if picture else focused.objectName())
    order = ["chatSearch", "chatList", "toggleChats", "picture", "copyMessage", "editMessage"]
    order += ["regenerate", "numbersToggle", "composerText", "contextTab"]
    places = [reached.index(name) for name in order]
    assert places == sorted(places)
    # The second message's button comes after all of the first one's.
    copies = [at for at, name in enumerate(reached) if name == "copyMessage"]
    assert copies[0] < reached.index("editMessage") < copies[1] < reached.index("regenerate")
    for _ in range(len(reached) - reached.index("picture")):
        press_key_on_focus(Qt.Key.Key_Backtab)
    back = QApplication.focusWidget()
    assert back is not None and isinstance(back.parentWidget(), PictureThumbnail)


async def test_every_control_shows_that_it_has_the_focus(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await answered(open_app, engine)
    app.window.toast.say("Words", action=("Undo", lambda: None))
    app.window.actions_by_name["actionDeleteAll"].trigger()
    unselected = named(QListWidget(app.window.page), "unselected")
    unselected.addItem("One")
    unselected.show()
    await settle()
    shown: set[str] = set()
    for stop in tab_stops(app.window, None):
        # A caret shows it in text.
        if isinstance(stop, QLineEdit | QTextEdit | QPlainTextEdit):
            continue
        app.window.page.composer.setFocus()
        before = stop.grab().toImage()
        stop.setFocus(Qt.FocusReason.TabFocusReason)
        assert stop.hasFocus() and stop.grab().toImage() != before, stop.objectName()
        shown.add(stop.objectName())
    assert {"unselected", "transcript", "contextScroll", "deleteAllYes", "toastAction"} <= shown


def press_key_on_focus(key: Qt.Key) -> None:
    target = QApplication.focusWidget()
    assert target is not None
    QTest.keyClick(target, key)


async def test_copying_by_key_leaves_the_focus_where_it_is(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await answered(open_app, engine)
    button = find(app, QAbstractButton, "copyMessage")
    button.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert button.hasFocus()
    assert QApplication.clipboard().text() == "An answer"
    # Control and a letter are no text.
    QTest.keyClick(button, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    press_key(app, Qt.Key.Key_X)
    assert app.window.page.composer.text.toPlainText() == "x"


async def test_after_load(app: App, engine: FakeEngine) -> None:
    await until(lambda: app.parts.engine.model)
    app.window.actions_by_name["actionSettings"].trigger()
    box = find(app, QComboBox, "settingModelPrecision")
    box.setFocus()
    box.setCurrentIndex(box.findText("float32"))
    box.activated.emit(box.currentIndex())
    await settle()
    click(app, "loadModel")
    await until(lambda: len(engine.loads) == 2)
    await writes_on(app)
    assert app.parts.settings.settings.model.precision == "float32"
