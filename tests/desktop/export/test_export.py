"""U2 in the window: a chat goes out to a file and comes back with its branches and pictures."""

from __future__ import annotations

import asyncio
import base64
import re
import sqlite3
import threading
import zipfile
from pathlib import Path

import pypdfium2
import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtPrintSupport import QPrintDialog
from PySide6.QtWidgets import QFileDialog, QLineEdit, QPlainTextEdit

from desktop.app import App
from desktop.export import export, export_menu, writing
from desktop.export.archive import read_archive
from desktop.export.printing import PrintedDocument
from desktop.export.writing import ExportError
from desktop.store.tables import messages
from tests.desktop.conftest import until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import drop, ended, files, find, press, send, words
from tests.desktop.loop_watch import LoopWatch


def test_a_printed_document_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "bird.png").write_bytes(png(60, 40))
    document = PrintedDocument({})
    document.setHtml(f'<img src="{tmp_path / "bird.png"}" width="60" height="40">')
    page = QImage(80, 80, QImage.Format.Format_RGB32)
    page.fill(QColor("white"))
    blank = page.copy()
    painter = QPainter(page)
    document.drawContents(painter)
    painter.end()
    assert page == blank


async def talked(app: App, engine: FakeEngine, folder: Path) -> int:
    (folder / "bird.png").write_bytes(png(60, 40))
    drop(app, files([folder / "bird.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    (await send(app, engine, "Which bird?")).finish("A heron.")
    await ended(app)
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 2)
    engine.asked[1].finish("A stork.", reasoning="Hm.")
    await ended(app)
    chat = app.parts.transcript.chat
    assert chat is not None
    return chat


def read_pdf(path: Path) -> tuple[str, int]:
    """The text of its first page, and the number of pictures on it."""
    page = pypdfium2.PdfDocument(path)[0]
    images = page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
    return page.get_textpage().get_text_range(), len(list(images))


async def test_a_chat_is_exported_and_printed_with_pictures_and_formulas(
    app: App, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talked(app, engine, tmp_path)
    text = "Its <b>legs</b>:\n\n$$\\frac{1}{2}$$\n\n```\nstork = 1\n```"
    (await send(app, engine, "How long?")).finish(text)
    await ended(app)
    path, printed = tmp_path / "bird.pdf", tmp_path / "printed.pdf"

    async def chosen(*_: object) -> Path:
        return path

    monkeypatch.setattr(export_menu, "choose_export", chosen)
    app.window.actions_by_name["actionExport"].trigger()
    await until(path.exists)
    app.window.actions_by_name["actionPrint"].trigger()
    await until(lambda: app.window.findChildren(QPrintDialog))
    dialog = find(app, QPrintDialog, "printDialog")
    assert dialog.printer().docName() == "Which bird"
    dialog.printer().setOutputFileName(str(printed))
    dialog.done(QPrintDialog.DialogCode.Accepted)
    await until(lambda: words(app, "toastText") == f"Printed to {printed}.")
    for each in (path, printed):
        shown, images = read_pdf(each)
        # The picture and the formula; only the chosen reply.
        assert images == 2 and "A stork." in shown and "A heron." not in shown
        assert "Which bird?" in shown and "Its <b>legs</b>:" in shown and "stork = 1" in shown


async def test_html_has_a_drawing_of_a_picture_that_browsers_do_not_show(
    app: App, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await talked(app, engine, tmp_path)
    # Each picture gets its own drawing.
    QImage(40, 60, QImage.Format.Format_RGB32).save(str(tmp_path / "tall.png"))
    drop(app, files([tmp_path / "tall.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    (await send(app, engine, "And this?")).finish("Another.")
    await ended(app)
    path = tmp_path / "bird.html"
    # Qt reads neither HEIC nor TIFF; the engine draws a picture of any format alike.
    for names, sizes in (((), [(60, 40), (40, 60)]), (("PNG",), [(30, 20), (20, 30)])):
        monkeypatch.setattr(writing, "NOT_IN_BROWSERS", names)
        monkeypatch.setattr(export, "LONGEST_DRAWN", 30)
        await app.parts.export.write([chat], path)
        found = re.findall('data:image/png;base64,([^"]*)', path.read_text("utf-8"))
        images = [QImage.fromData(base64.b64decode(data)) for data in found]
        assert [image.size().toTuple() for image in images] == sizes


async def archived(app: App, chat: int) -> object:
    read = await app.parts.database.run(read_archive, chat)
    assert read is not None
    # The export is of then, the list of now.
    return read.model_copy(update={"used": 0.0})


@pytest.mark.parametrize("suffix", [".zip", ".json"])
async def test_U2_a_deleted_chat_comes_back(
    app: App, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    chat = await talked(app, engine, tmp_path)
    before, path = await archived(app, chat), tmp_path / f"Which bird{suffix}"

    async def chosen_export(*_: object) -> Path:
        return path

    async def chosen_imports(*_: object) -> list[Path]:
        return [path, tmp_path / "bird.png", tmp_path / "missing.json"]

    monkeypatch.setattr(export_menu, "choose_export", chosen_export)
    monkeypatch.setattr(export_menu, "choose_imports", chosen_imports)
    app.window.actions_by_name["actionExport"].trigger()
    await until(path.exists)
    app.parts.chats.delete(chat)
    await until(lambda: app.parts.chats.trash.chats)
    app.parts.deletion.delete_for_good()
    pictures = app.parts.folders.pictures
    await until(lambda: not app.parts.chats.trash.chats and not list(pictures.glob("??/*")))
    app.window.actions_by_name["actionImport"].trigger()
    await until(lambda: app.window.findChildren(QPlainTextEdit, "importWords"))
    report = find(app, QPlainTextEdit, "importWords").toPlainText().splitlines()
    assert report[0] == f"Which bird{suffix}: 1 chat, 3 messages, 1 picture from Waymark."
    assert report[2].startswith("bird.png: ") and report[4].startswith("missing.json: ")
    assert words(app, "toastText") == "Imported: 1 chat."
    assert len(list(pictures.glob("??/*"))) == 1
    [listed] = app.parts.chat_list.chats
    assert await archived(app, listed.id) == before
    app.parts.chat.open(listed.id)
    await until(lambda: app.parts.transcript.rows)
    [picture] = app.parts.transcript.rows[0].message.pictures
    assert picture.thumbnail and picture.size == (60, 40)
    assert app.parts.transcript.rows[1].text == "A stork."


@pytest.mark.parametrize(
    ("typed", "kind", "written"),
    [
        ("notes", 0, "notes.zip"),
        ("notes v1.5", 0, "notes v1.5 2.zip"),
        ("notes.zip", 2, "notes 2.html"),
        ("new.zip", 3, "new.md"),
    ],
)
async def test_U2_no_file_is_replaced_that_the_dialog_did_not_ask_about(
    app: App, tmp_path: Path, typed: str, kind: int, written: str
) -> None:
    for name in ("notes v1.5.zip", "notes v1.zip", "notes.html"):
        (tmp_path / name).touch()
    choosing = asyncio.ensure_future(export_menu.choose_export(app.window, "Export", "x"))
    await until(lambda: app.window.findChildren(QFileDialog))
    [dialog] = app.window.findChildren(QFileDialog)
    dialog.setDirectory(str(tmp_path))
    dialog.selectNameFilter(dialog.nameFilters()[kind])
    dialog.findChildren(QLineEdit, "fileNameEdit")[0].setText(str(tmp_path / typed))
    dialog.accept()
    assert await choosing == tmp_path / written


async def test_pictures_that_can_not_be_read_are_reported(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    chat = await talked(app, engine, tmp_path)
    for file in app.parts.folders.pictures.glob("??/*"):
        file.unlink()
    await app.parts.export.write([chat], tmp_path / "a.zip")
    await until(lambda: "Missing files: 1 picture" in words(app, "toastText"))
    report = await app.parts.export.read(tmp_path / "a.zip")
    assert (report.chats, report.pictures) == (1, 0)
    assert "can't be read: 1" in report.words()


async def test_a_folder_that_can_not_be_written(app: App, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="can't be written"):
        await app.parts.export.write([], tmp_path / "nowhere" / "a.zip")


async def test_an_export_that_is_cut_off_at_closing_leaves_nothing(
    app: App, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await talked(app, engine, tmp_path)
    begun, goes_on = threading.Event(), threading.Event()
    entry = vars(zipfile)["_ZipWriteFile"]
    write = entry.write

    def slowly(file: object, data: bytes) -> object:
        begun.set()
        goes_on.wait(10)
        return write(file, data)

    monkeypatch.setattr(entry, "write", slowly)
    (tmp_path / "out").mkdir()
    task = asyncio.ensure_future(app.parts.export.write([chat], tmp_path / "out" / "a.zip"))
    await until(begun.is_set)
    task.cancel()
    await asyncio.sleep(0.01)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
async def test_H8_export_and_import_of_2000_messages(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:

    def fill(connection: sqlite3.Connection) -> int:
        chat: int | None = None
        for number in range(1_000):
            turn = messages.append_turn(connection, chat, f"question {number}")
            chat = turn.chat
            text = f"**reply** {number}\n\n- a\n- b\n\n" + "words " * 300
            connection.execute("UPDATE messages SET text = ? WHERE id = ?", (text, turn.reply))
        assert chat is not None
        return chat

    chat = await app.parts.database.run(fill)
    with LoopWatch() as watch:
        for suffix in (".zip", ".json", ".md", ".html"):
            watch.doing = f"exporting to {suffix}"
            await app.parts.export.write([chat], tmp_path / f"a{suffix}")
        for suffix in (".zip", ".json"):
            watch.doing = f"importing {suffix}"
            report = await app.parts.export.read(tmp_path / f"a{suffix}")
            assert report.messages == 2_000


@pytest.mark.parametrize(
    ("title", "name"),
    [("a/b\\c:d", "a b c d"), ("...", "chat"), ("  Vögel? ", "Vögel"), ("x" * 99, "x" * 60)],
)
def test_a_title_as_a_name_of_a_file(title: str, name: str) -> None:
    assert export_menu.file_name(title) == name
