from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from core.api.errors import DataFolderBusyError
from core.client.lock import DataFolderLock
from desktop import app as app_module
from desktop.store.folders import Folders
from tests.desktop.conftest import HARMLESS, PATIENCE_S

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "triton", "safetensors", "transformers", "numpy", "PIL")
IMPORT_ALL = f"""
import importlib, pkgutil, sys
import desktop
for module in pkgutil.walk_packages(desktop.__path__, "desktop."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(",".join(sorted(set({HEAVY!r}) & set(sys.modules))))
"""


def test_the_windows_process_never_loads_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_the_caret_rests_until_it_moves(
    qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "CARET_RESTS_AFTER_MS", 1)
    field, usual = QPlainTextEdit(), qapp.cursorFlashTime()
    field.show()
    field.activateWindow()
    field.setFocus()
    caret = app_module.RestingCaret(qapp)
    try:
        qtbot.waitUntil(lambda: qapp.cursorFlashTime() == 0)
        caret._rest.setInterval(60_000)
        QTest.keyClick(field, Qt.Key.Key_A)
        assert qapp.cursorFlashTime() == usual > 0
    finally:
        shiboken6.delete(caret)
        qapp.setCursorFlashTime(usual)
        field.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "desktop", "--data", str(tmp_path / "data")],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stderr=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.communicate()


def busy(folder: Path) -> bool:
    try:
        DataFolderLock(folder).release()
    except DataFolderBusyError:
        return True
    return False


def wait_for(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to end an app with")
def test_the_app_ends_whole_when_it_is_told_to(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    wait_for(lambda: busy(tmp_path / "data"))
    wait_for(lambda: psutil.Process(running.pid).children())
    (worker,) = psutil.Process(running.pid).children()
    if sys.platform == "linux":
        # Neither leaves its memory in a file when it crashes.
        limits = psutil.Process(running.pid).rlimit(psutil.RLIMIT_CORE)
        assert limits in ((1, 1), (0, 0))
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE_S) == 0
    wait_for(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    assert not busy(tmp_path / "data")
    assert (tmp_path / "data" / "window.ini").exists()


LOSE_DISPLAY = """
import sys
from PySide6.QtCore import QTimer
from desktop import app
from desktop.window.main_window import MainWindow

class Doomed(MainWindow):
    def show(self):
        super().show()
        self.page.composer.text.setPlainText("half a thought")
        # What Qt does when the X server is gone.
        QTimer.singleShot(500, lambda: app.QApplication.exit(1))

app.MainWindow = Doomed
sys.exit(app.main(["--data", sys.argv[1]]))
"""


HANGS = """
import os, sys
from PySide6.QtCore import QTimer
from pathlib import Path
from desktop import app
from desktop.window import window_parts
from desktop.engine import tasks
from desktop.pictures import pictures
from desktop.store import database
from desktop.window.main_window import MainWindow

data, what = Path(sys.argv[1]), sys.argv[2]
pipe = data.parent / "pipe"
os.mkfifo(pipe)

def hang(*_):
    # Opening a pipe that nobody writes to waits for good, as a file of a server that is gone.
    with open(pipe, "rb"):
        pass

class Leaving(MainWindow):
    def show(self):
        super().show()
        self.page.composer.text.setPlainText("half a thought")
        QTimer.singleShot(500, self.hang)

    def hang(self):
        if what == "picture":
            pictures.why_no_picture = hang
            self.page.composer.add_files([data.parent / "a.png"])
        else:
            # As a disk that no longer answers; the step after it would wait for its turn.
            window_parts.STEP_LIMIT_S = database.CLOSE_PATIENCE_S = 0.5
            self._parts.database._executor.submit(hang)
        QTimer.singleShot(500, self.close)

app.MainWindow = Leaving
sys.exit(app.main(["--data", str(data)]))
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("what", ["picture", pytest.param("chats", marks=pytest.mark.slow)])
def test_an_app_ends_though_a_thread_of_it_never_does(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(tmp_path / "data"), what],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert not busy(tmp_path / "data")
    if what == "picture":
        assert drafts_in(tmp_path / "data") == ["half a thought"]


def test_an_app_that_loses_its_display_stores_everything_and_ends_in_one_line(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOSE_DISPLAY, str(tmp_path / "data")],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == app_module.EXIT_LOST_DISPLAY
    assert ours_of(done.stderr) == [
        "Waymark has lost its display and has closed. Your chats are stored."
    ]
    assert not busy(tmp_path / "data")
    assert drafts_in(tmp_path / "data") == ["half a thought"]


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs an X server to take away")
def test_the_x_server_dies_and_the_worker_is_not_left_behind(tmp_path: Path) -> None:
    with contextlib.closing(XServer()) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "desktop", "--data", str(tmp_path / "data")],
            cwd=ROOT,
            env={
                **os.environ,
                "QT_QPA_PLATFORM": "xcb",
                "DISPLAY": server.display,
                # Looking for a tray may start a bus.
                "DBUS_SESSION_BUS_ADDRESS": "disabled:",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(lambda: psutil.Process(process.pid).children())
            (worker,) = psutil.Process(process.pid).children()
            server.close()
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    assert process.returncode != 0
    assert "Traceback" not in said
    wait_for(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    assert not busy(tmp_path / "data")


class XServer:
    """An X server of the test's own, on a display that it finds free."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self._process = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as told:
            self.display = f":{told.readline().strip()}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def ours_of(stderr: str) -> list[str]:
    """Lines but those that the offscreen platform says of itself."""
    return [line for line in stderr.splitlines() if not line.startswith(HARMLESS)]


def drafts_in(data: Path) -> list[str]:
    connection = sqlite3.connect(Folders.choose(str(data)).database)
    try:
        return [text for (text,) in connection.execute("SELECT text FROM drafts")]
    finally:
        connection.close()


def test_help_needs_no_display(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app_module.main(["--help"])
    assert end.value.code == 0
    assert "--data" in capsys.readouterr().out
