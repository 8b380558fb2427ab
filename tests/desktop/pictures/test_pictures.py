from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QDragEnterEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QDialog,
    QFileDialog,
    QLabel,
    QLineEdit,
    QPushButton,
)

from core.api.chat import ImagePart, UserMessage
from desktop.app import App
from desktop.chat.compose.composer_text import ComposerText
from desktop.chat.compose.message_editor import MessageEditor
from desktop.pictures.picture_viewer import PictureViewer
from desktop.store.folders import Folders
from desktop.window.window_dialogs import suggested_name
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import Asked, FakeEngine, png
from tests.desktop.hands import (
    drop,
    ended,
    files,
    find,
    press,
    send,
    settle,
    thumbnails,
    user_rows,
    words,
)


def written(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def names_sent(asked: Asked) -> list[str]:
    message = asked.conversation.messages[-1]
    assert isinstance(message, UserMessage)
    return [part.name for part in message.content if isinstance(part, ImagePart)]


async def with_picture(open_app: OpenApp, engine: FakeEngine, folder: Path) -> App:
    app = await open_app()
    drop(app, files([written(folder, "star.png", png(40, 40))]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    (await send(app, engine, "What is it?")).finish("A star")
    await ended(app)
    return app


def editor(app: App) -> MessageEditor:
    return find(app, MessageEditor, "")


async def give(app: App, paths: list[Path]) -> None:
    there = len(editor(app).strip.thumbnails())
    place, action = QPoint(5, 5), Qt.DropAction.CopyAction
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    data = files(paths)
    editor(app).dragEnterEvent(QDragEnterEvent(place, action, data, left, none))
    editor(app).dropEvent(QDropEvent(QPointF(place), action, data, left, none))
    await until(lambda: len(editor(app).strip.thumbnails()) == there + len(paths))
    await until(find(app, QPushButton, "editSend").isEnabled)


async def test_a_second_refusal_adds_to_the_first(app: App, tmp_path: Path) -> None:
    drop(app, files([written(tmp_path, "a.bin", bytes(9))]))
    refused = "Not added: a.bin is neither a picture nor a document that Waymark can read."
    await until(lambda: words(app, "composerNotice") == refused)
    drop(app, files([written(tmp_path, "b.png", b"\x89PNG broken"), tmp_path / "gone.png"]))
    await until(lambda: "b.png was not added" in words(app, "composerNotice"))
    said = words(app, "composerNotice")
    assert "a.bin is neither a picture" in said and "gone.png can't be read" in said
    drop(app, files([written(tmp_path, f"{at}.bin", bytes(9)) for at in range(14)]))
    await until(lambda: "a.bin, 0.bin, 1.bin and 12 more" in words(app, "composerNotice"))
    # Another chat's composer has nothing to do with it.
    app.parts.chat.open(None)
    assert app.parts.chat.draft is app.window.page.composer._draft


async def test_a_refusal_is_said_beside_the_draft_it_belongs_to(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    engine.may_describe.clear()
    drop(app, files([written(tmp_path, "b.png", b"\x89PNG broken")]))
    draft = app.parts.chat.draft
    await until(lambda: draft.pictures)
    press(app, "newChat")
    engine.may_describe.set()
    await until(lambda: not draft.pictures)
    await settle()
    assert words(app, "composerNotice") == ""


# A message edited with its pictures.


async def test_editing_adds_and_takes_out_pictures(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await with_picture(open_app, engine, tmp_path)
    press(app, "editMessage")
    assert not user_rows(app)[0]._strip.isVisible()
    pasted = files([])
    image = QImage(12, 12, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.red)
    pasted.setImageData(image)
    editor(app).text.data_given.emit(pasted)
    await until(lambda: len(editor(app).strip.thumbnails()) == 2)
    await give(
        app, [written(tmp_path, "moon.png", png(30, 30)), written(tmp_path, "sun.png", png(20, 20))]
    )
    press(app, "pictureRemove")  # the last of them
    chosen: list[object] = []
    editor(app).choose_pictures_asked.connect(chosen.append)
    app.window.page.transcript.messages.choose_pictures_asked.disconnect()
    press(app, "editAddPictures")
    (add,) = chosen
    assert callable(add)
    add([written(tmp_path, "mars.png", png(10, 10))])
    await until(lambda: len(editor(app).strip.thumbnails()) == 4)
    await until(find(app, QPushButton, "editSend").isEnabled)
    press(app, "editSend")
    await until(lambda: len(engine.asked) == 2)
    names = ["star.png", "Pasted picture", "moon.png", "mars.png"]
    assert names_sent(engine.asked[1]) == names
    engine.asked[1].finish("Four")
    await ended(app)
    (row,) = user_rows(app)
    assert [each.name for each in row.row.message.pictures] == names
    # The original message is another version.
    assert row.row.place == 1
    row.bar.before.click()
    await until(lambda: user_rows(app)[0].row.place == 0)
    assert [each.name for each in user_rows(app)[0].row.message.pictures] == ["star.png"]


async def test_an_edit_that_is_cancelled_changes_nothing(
    open_app: OpenApp, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    app = await with_picture(open_app, engine, tmp_path)
    for leave in ("editCancel", "Esc"):
        press(app, "editMessage")
        assert len(editor(app).strip.thumbnails()) == 1
        await give(app, [written(tmp_path, "moon.png", png(30, 30))])
        # Its pictures are no garbage until it ends.
        await app.parts.deletion.purge_old()
        assert len(list(folders.pictures.glob("??/*"))) == 2
        editor(app).text.setPlainText("other words")
        if leave == "Esc":
            QTest.keyClick(editor(app).text, Qt.Key.Key_Escape)
        else:
            press(app, leave)
        await settle()
    (row,) = user_rows(app)
    assert row._strip.isVisible() and len(row._strip.thumbnails()) == 1
    assert row.row.text == "What is it?" and len(engine.asked) == 1
    assert app.parts.chat.draft.empty and thumbnails(app) == []
    await app.parts.deletion.purge_old()
    assert len(list(folders.pictures.glob("??/*"))) == 1


async def test_an_edit_waits_in_its_chat_and_for_its_pictures(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await with_picture(open_app, engine, tmp_path)
    chat = app.parts.transcript.chat
    press(app, "editMessage")
    await give(app, [written(tmp_path, "moon.png", png(30, 30))])
    editor(app).text.setPlainText("half an edit")
    press(app, "newChat")
    await until(lambda: app.parts.transcript.rows == [])
    app.parts.chat.open(chat)
    await until(lambda: app.parts.transcript.rows)
    assert find(app, ComposerText, "editText").toPlainText() == "half an edit"
    assert len(editor(app).strip.thumbnails()) == 2
    # It can't be sent before all pictures are described.
    engine.may_describe.clear()
    app.parts.pictures.add_files(editor(app)._draft, [written(tmp_path, "a.bin", bytes(9))])
    app.parts.pictures.add_files(editor(app)._draft, [written(tmp_path, "mars.png", png(10, 10))])
    await until(lambda: len(editor(app)._draft.pictures) == 3)
    await until(lambda: "a.bin is neither a picture" in words(app, "editNotice"))
    assert not find(app, QPushButton, "editSend").isEnabled()
    QTest.keyClick(editor(app).text, Qt.Key.Key_Return)
    assert "are ready" in words(app, "editNotice") and len(engine.asked) == 1
    engine.may_describe.set()
    await until(find(app, QPushButton, "editSend").isEnabled)
    press(app, "editCancel")


async def test_a_drop_is_answered_with_copy_when_move_is_proposed(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await with_picture(open_app, engine, tmp_path)
    press(app, "editMessage")
    for target in (app.window.page, editor(app)):
        data = files([written(tmp_path, "b.png", png())])
        kinds = Qt.DropAction
        both, left = kinds.CopyAction | kinds.MoveAction, Qt.MouseButton.LeftButton
        shift = Qt.KeyboardModifier.ShiftModifier
        entered = QDragEnterEvent(QPoint(5, 5), both, data, left, shift)
        dropped = QDropEvent(QPointF(5, 5), both, data, left, shift)
        for event in (entered, dropped):
            event.setDropAction(kinds.MoveAction)
        target.dragEnterEvent(entered)
        target.dropEvent(dropped)
        answers = [(each.isAccepted(), each.dropAction()) for each in (entered, dropped)]
        assert answers == [(True, kinds.CopyAction)] * 2
    await until(lambda: app.parts.chat.draft.complete)


async def viewed(app: App, tmp_path: Path, engine: FakeEngine) -> PictureViewer:
    for name, size in (("one.png", (40, 40)), ("two.png", (60, 30))):
        drop(app, files([written(tmp_path, name, png(*size))]))
        await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
        (await send(app, engine, name)).finish("A shape")
        await ended(app)
    shown = app.parts.transcript.rows[0].message.pictures[0]
    app.window.page.transcript.messages.open_picture_asked.emit(shown.digest)
    viewer = find(app, PictureViewer, "pictureViewer")
    await until(lambda: not viewer.shown.isEmpty())
    return viewer


def copied_png() -> bytes:
    held: QMimeData | None = QGuiApplication.clipboard().mimeData()
    return bytes(held.data("image/png").data()) if held is not None else b""


async def test_the_large_picture_is_saved_turned_and_copied(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    viewer = await viewed(app, tmp_path, engine)
    for target in (tmp_path / "saved.png", tmp_path / "not there" / "saved.png"):
        press(app, "pictureSave")
        await until(lambda: app.window.findChild(QFileDialog, "saveDialog"))
        dialog = find(app, QFileDialog, "saveDialog")
        assert Path(dialog.selectedFiles()[0]).name == "one.png"
        find(app, QLineEdit, "fileNameEdit").setText(str(target))
        dialog.done(QDialog.DialogCode.Accepted)
        await until(lambda: app.window.findChild(QFileDialog, "saveDialog") is None)
    assert (tmp_path / "saved.png").read_bytes() == (tmp_path / "one.png").read_bytes()
    await until(lambda: words(app, "toastText").startswith("The picture was not saved."))
    before = find(app, QAbstractButton, "pictureBefore")
    after = find(app, QAbstractButton, "pictureNext")
    said = find(app, QLabel, "picturePlace")
    assert (said.text(), before.isEnabled(), after.isEnabled()) == ("1 of 2", False, True)
    after.click()
    await until(lambda: viewer.shown == QSize(60, 30))
    assert (said.text(), before.isEnabled(), after.isEnabled()) == ("2 of 2", True, False)
    assert "60 x 30 pixels" in find(app, QLabel, "pictureSize").text()
    # What comes late for a picture that was turned away from is not drawn.
    engine.may_render.clear()
    before.click()
    after.click()
    engine.may_render.set()
    await until(lambda: viewer.shown == QSize(60, 30))
    await settle()
    assert viewer.picture.name == "two.png" and viewer.shown == QSize(60, 30)
    press(app, "pictureCopy")
    await until(copied_png)
    copied = QImage.fromData(copied_png())
    assert copied.size() == QSize(60, 30) and copied.pixelColor(5, 5) == QColor("red")
    viewer.close()
    app.leave()
    await app.gone.wait()
    assert copied_png() == b""


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("star.png", "star.png"),
        ("Pasted picture", "Pasted picture.png"),
        ("photo.jpeg", "photo.jpeg.png"),
        ("../../etc/passwd", "passwd.png"),
        ("..\\a:b?.png", "ab.png"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe", "gnp.exe.png"),
        ("..", "Picture.png"),
    ],
)
def test_a_name_for_a_picture_that_is_saved(tmp_path: Path, name: str, suggested: str) -> None:
    assert suggested_name(name, written(tmp_path, "blob", png())) == suggested
