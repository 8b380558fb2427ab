from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox

from core.client.lock import DataFolderLock
from desktop import app as app_module
from desktop.app import EXIT_REFUSED, open_or_refuse
from desktop.store.folders import Folders
from desktop.store.tables.fields import DAMAGED
from desktop.store.tables.schema import MIGRATIONS
from desktop.window.main_window import MainWindow
from tests.desktop.conftest import PATIENCE_S, Loop, OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import child
from tests.desktop.store.damage import (
    CHATS,
    SECRET,
    TURNS,
    all_texts,
    force,
    root_of,
    write_chats,
    zero_page,
)

ROOT = Path(__file__).parents[2]


def refusal() -> QMessageBox | None:
    boxes = [box for box in QApplication.topLevelWidgets() if isinstance(box, QMessageBox)]
    shown = (box for box in boxes if box.objectName() == "refusal" and box.isVisible())
    return next(shown, None)


async def dialog() -> QMessageBox:
    await until(lambda: refusal() is not None)
    box = refusal()
    assert box is not None
    assert {label.textFormat() for label in box.findChildren(QLabel) if label.text()} == {
        Qt.TextFormat.PlainText
    }
    return box


def press(box: QMessageBox, words: str) -> None:
    (button,) = [each for each in box.buttons() if each.text().replace("&", "") == words]
    button.click()


async def refused(folder: Path | str) -> str:
    """Returns the text of the dialog, once it is closed."""
    task = asyncio.ensure_future(open_or_refuse(str(folder)))
    box = await dialog()
    said = f"{box.text()} {box.informativeText()}"
    press(box, "Close")
    assert await task == EXIT_REFUSED
    return said


async def test_a_data_folder_that_can_not_exist_is_refused_in_words(
    tmp_path: Path, qloop: Loop
) -> None:
    assert "can't be used: " in await refused(tmp_path / ("x" * 300))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> FakeEngine:
    monkeypatch.setattr(app_module, "EngineClient", lambda _log: engine)
    return engine


async def window_closed(task: asyncio.Future[int]) -> None:
    await until(windows)
    windows()[0].close()
    assert await task == 0


def windows() -> list[MainWindow]:
    shown = QApplication.topLevelWidgets()
    return [each for each in shown if isinstance(each, MainWindow) and each.isVisible()]


async def test_a_second_app_on_one_folder_is_refused_until_the_first_has_ended(
    folders: Folders, qloop: Loop, capsys: pytest.CaptureFixture[str], stand_in: FakeEngine
) -> None:
    lock = DataFolderLock(folders.data)
    task = asyncio.ensure_future(open_or_refuse(str(folders.data)))
    box = await dialog()
    assert "already open" in box.text() and str(folders.data) in box.informativeText()
    assert "already open" in capsys.readouterr().err
    lock.release()
    press(box, "Retry")
    await window_closed(task)


async def test_chats_of_a_newer_waymark_are_refused_and_kept(folders: Folders, qloop: Loop) -> None:
    connection = sqlite3.connect(folders.database)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "newer Waymark" in await refused(folders.data)
    connection = sqlite3.connect(folders.database)
    assert connection.execute("PRAGMA user_version").fetchone() == (999,)
    connection.close()
    DataFolderLock(folders.data).release()


async def test_one_can_begin_with_empty_chats_beside_a_file_that_is_refused(
    folders: Folders, qloop: Loop, stand_in: FakeEngine
) -> None:
    write_chats(folders.database)
    with contextlib.closing(sqlite3.connect(folders.database)) as connection:
        connection.execute("PRAGMA user_version = 999")
    whole = all_texts(folders.database)
    task = asyncio.ensure_future(open_or_refuse(str(folders.data)))
    box = await dialog()
    assert "nothing in it is deleted" in box.informativeText()
    press(box, "Start with empty chats")
    await window_closed(task)
    (aside,) = folders.data.glob("chats.aside-*.db")
    assert all_texts(aside) == whole and all_texts(folders.database) == []


async def test_the_folder_can_be_looked_at_before_one_decides(
    folders: Folders, qloop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.database.mkdir()
    opened: list[Path] = []
    monkeypatch.setattr("desktop.widgets.dialogs.open_folder", opened.append)
    task = asyncio.ensure_future(open_or_refuse(str(folders.data)))
    press(await dialog(), "Open folder")
    await until(lambda: opened == [folders.data] and refusal() is not None)
    press(await dialog(), "Close")
    assert await task == EXIT_REFUSED


def put_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("in the way")


def other_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (place TEXT)")
        connection.execute("INSERT INTO bookmarks VALUES ('zanzibar')")
        connection.commit()


@pytest.mark.parametrize(
    ("break_it", "place", "expected"),
    [
        (put_file, "", "can't be used"),
        (Path.mkdir, "chats.db", "chats.db is not a file"),
        (Path.mkdir, "lock", "lock can't be used: Is a directory"),
        (put_file, "pictures", "pictures can't be used"),
        (put_file, "logs", "logs can't be used"),
        (other_database, "chats.db", "database of another program"),
    ],
)
async def test_a_reason_not_to_start_is_shown_in_a_dialog(
    folders: Folders,
    qloop: Loop,
    break_it: Callable[[Path], object],
    place: str,
    expected: str,
) -> None:
    break_it(folders.data / place)
    said = await refused(folders.data)
    assert expected in said and SECRET not in said


async def test_an_unknown_user_has_no_folder(qloop: Loop) -> None:
    assert "not a valid path on this system" in await refused("~nobody-of-that-name/data")


@pytest.mark.parametrize("place", ["MainWindow", "WindowParts", "WindowParts.begin"])
async def test_H7_a_defect_of_ours_at_the_start_is_said_and_quotes_nothing(
    folders: Folders,
    qloop: Loop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stand_in: FakeEngine,
    place: str,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(f"desktop.app.{place}", fail)
    said = await refused(folders.data)
    assert "could not start" in said and "ValueError" in said
    logged = folders.window_log.read_text()
    assert "ValueError, raised at" in logged and "test_start.py" in logged
    assert SECRET not in said + logged + "".join(capsys.readouterr())
    # Nothing of it is left: neither the lock nor an open file.
    monkeypatch.undo()
    monkeypatch.setattr(app_module, "EngineClient", lambda _log: stand_in)
    await window_closed(asyncio.ensure_future(open_or_refuse(str(folders.data))))


async def test_H7_a_migration_that_fails_is_said_in_a_window(
    folders: Folders, qloop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_chats(folders.database)
    before = folders.database.read_bytes()
    steps = (*MIGRATIONS, "UPDATE chats SET title = NULL")
    monkeypatch.setattr("desktop.store.database.MIGRATIONS", steps)
    said = await refused(folders.data)
    assert "defect of Waymark" in said and SECRET not in said
    assert folders.database.read_bytes() == before


async def test_H7_what_was_saved_of_damaged_chats_stands_beside_the_window(
    open_app: OpenApp, folders: Folders
) -> None:
    write_chats(folders.database)
    zero_page(folders.database, root_of(folders.database, "messages_of_chat"))
    folders.settings_file.write_text('{"cache": {"count": "many"}}')
    app = await open_app()
    box = child(app.window, QMessageBox, "startNotice")
    assert box.isVisible() and not box.isModal()
    # Both are said, and neither goes by itself.
    said = box.informativeText()
    assert f"{CHATS} chats, " in said and "chats.damaged-" in said and "cache.count" in said
    assert SECRET not in said
    assert {label.textFormat() for label in box.findChildren(QLabel) if label.text()} == {
        Qt.TextFormat.PlainText
    }
    await until(lambda: len(app.parts.chat_list.chats) == CHATS)
    press(box, "Close")


async def test_H7_every_chat_of_a_damaged_file_opens_in_the_window(
    open_app: OpenApp, folders: Folders
) -> None:
    write_chats(folders.database)
    for change in (
        "UPDATE messages SET text = x'ff00fe' WHERE id % 5 = 0",
        "UPDATE replies SET reasoning = NULL, stats = 7, ids = 'x' WHERE message % 4 = 0",
        "UPDATE message_pictures SET name = x'ff', tokens = 'many' WHERE message % 2",
        "UPDATE pictures SET thumbnail = 'no picture', width = 'wide'",
        "UPDATE drafts SET text = NULL",
        "UPDATE chats SET title = x'ff', system = NULL, created = 'then' WHERE id = 2",
    ):
        force(folders.database, change)
    zero_page(folders.database, root_of(folders.database, "message_pictures"))
    app = await open_app()
    await until(lambda: len(app.parts.chat_list.chats) == CHATS)
    shown = app.parts.transcript
    for chat in app.parts.chat_list.chats:
        app.parts.chat.open(chat.id)
        await until(partial(lambda number: shown.chat == number, chat.id))
        assert len(app.parts.transcript.rows) == 2 * TURNS
        assert app.window.page.composer.text.toPlainText() == DAMAGED


START = """
import resource, sys
from PySide6.QtCore import QTimer
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox
from desktop import app
from desktop import theme

def look():
    for box in QApplication.topLevelWidgets():
        if isinstance(box, QMessageBox) and box.isVisible():
            print(box.objectName(), box.text(), box.informativeText(), flush=True)
            return box.button(QMessageBox.StandardButton.Close).click()
    QTimer.singleShot(50, look)

def watched(loop, life, run=app.run_loop):
    QTimer.singleShot(0, look)
    return run(loop, life)

app.run_loop = watched
exec(sys.argv[2])
sys.exit(app.main(["--data", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    ("breaking", "expected"),
    [
        ("theme.RESOURCES = theme.RESOURCES / 'gone'", "No such file or directory"),
        ("theme.read_colours = lambda scheme: 1 / 0", "ZeroDivisionError"),
        pytest.param(
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))",
            "can't be stored",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit"),
        ),
    ],
)
def test_H7_the_app_as_it_is_started_says_what_is_wrong(
    tmp_path: Path, breaking: str, expected: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "data"), breaking],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == EXIT_REFUSED, done.stderr
    assert done.stdout.startswith("refusal ") and expected in done.stdout
    assert "Traceback" not in done.stderr
