"""Work that goes on without the window: the tray, the question, notifications, staying awake."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QSystemTrayIcon

from core.api.errors import InternalError
from core.server.messages import RequestSeen
from desktop import background
from desktop.app import App
from desktop.background import Tray
from desktop.server.server import ServerStatus, Stage
from tests.desktop.conftest import PATIENCE_S, OpenApp, ready_app, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, send, settle

Told = list[tuple[str, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Notifications, on a system with a tray."""
    said: Told = []
    monkeypatch.setattr(Tray, "available", True)
    monkeypatch.setattr(
        QSystemTrayIcon,
        "showMessage",
        lambda _self, title, words, _icon: said.append((title, words)),
    )
    return said


def look_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QApplication, "activeWindow", staticmethod(lambda: None))


async def asked_at_closing(app: App) -> QMessageBox:
    app.window.close()
    await until(lambda: app.window.findChildren(QMessageBox, "closing"))
    await settle()
    return find(app, QMessageBox, "closing")


async def answer(app: App, button: str) -> None:
    find(app, QPushButton, button).click()
    await until(lambda: not app.window.findChildren(QMessageBox, "closing"))


def choice(app: App) -> str:
    return app.parts.settings.settings.background.when_closed


async def test_a_reply_goes_on_in_the_tray_and_is_notified(
    open_app: OpenApp, engine: FakeEngine, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await ready_app(open_app)
    request = await send(app, engine, "Why is\nthe sky blue?")
    await asked_at_closing(app)
    await answer(app, "closingCancel")
    assert app.window.isVisible() and choice(app) == "ask"
    await asked_at_closing(app)
    await answer(app, "closingGoOn")
    assert app.window.isHidden() and choice(app) == "go_on" and not request.cancelled
    look_elsewhere(monkeypatch)
    request.finish("Light scatters.")
    await until(lambda: told)
    # Nothing of the reply, and the title is no markup.
    assert told == [("Why is the sky blue?", "The reply is finished.")]
    app.parts.chat.open(None)
    app.window.tray.icon.messageClicked.emit()
    await until(lambda: app.parts.transcript.chat is not None)
    assert app.window.isVisible()
    # It was asked once.
    await send(app, engine, "And then?")
    find(app, QPushButton, "newChat").setFocus()
    app.window.close()
    assert app.window.isHidden() and not app.window.findChildren(QMessageBox, "closing")
    app.window.tray.icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)
    assert app.window.isVisible()
    assert app.window.focusWidget() is app.window.page.composer.text


async def test_stopping_is_remembered_and_the_reply_is_kept(
    open_app: OpenApp, engine: FakeEngine, told: Told
) -> None:
    app = await ready_app(open_app)
    (await send(app, engine, "Hello")).say("Good")
    await until(lambda: app.parts.transcript.rows[-1].text == "Good")
    box = await asked_at_closing(app)
    assert "A reply is being written" in box.text()
    app.window.close()
    find(app, QPushButton, "closingStop").click()
    await app.gone.wait()
    again = await ready_app(open_app)
    assert choice(again) == "stop" and not told
    # The chat that was left is open again.
    await until(lambda: again.parts.transcript.rows)
    assert again.parts.transcript.rows[-1].text == "Good"
    await send(again, engine, "More")
    again.window.close()
    await again.gone.wait()


async def test_without_a_tray_the_window_stays_or_everything_stops(
    open_app: OpenApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tray, "available", False)
    app = await ready_app(open_app)
    app.parts.settings.set_value("background.when_closed", "go_on")
    await send(app, engine, "Hello")
    box = await asked_at_closing(app)
    assert "no tray" in box.informativeText()
    assert not app.window.findChildren(QPushButton, "closingGoOn")
    await answer(app, "closingCancel")
    assert app.window.isVisible() and choice(app) == "go_on"
    await asked_at_closing(app)
    find(app, QPushButton, "closingStop").click()
    await app.gone.wait()


async def test_a_notification_comes_only_while_the_window_is_elsewhere_and_only_if_wanted(
    open_app: OpenApp, engine: FakeEngine, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await ready_app(open_app)
    monkeypatch.setattr(QApplication, "activeWindow", staticmethod(lambda: app.window))
    (await send(app, engine, "Seen")).finish("Yes")
    await ended(app)
    look_elsewhere(monkeypatch)
    await send(app, engine, "Stopped")
    app.parts.chat.stop()
    await ended(app)
    (await send(app, engine, "Failed")).fail(InternalError("no").info())
    await ended(app)
    assert told == [("Seen", "The reply failed.")]
    app.parts.settings.set_value("background.notify", False)
    assert not app.window.tray.icon.isVisible()
    (await send(app, engine, "Unwanted")).finish("Yes")
    await ended(app)
    assert len(told) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps awake without a program")
async def test_the_computer_stays_awake_during_a_reply(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setattr(background, "command", lambda: ("sh", "-c", f"echo $$ >> {log}; exec cat"))
    monkeypatch.setattr(background, "PATIENCE_S", 0.0)

    def runs(number: int) -> bool:
        started = log.read_text().split()
        return len(started) == number and psutil.pid_exists(int(started[-1]))

    app = await ready_app(open_app)
    request = await send(app, engine, "Hello")
    await until(lambda: runs(1))
    request.finish("Good day")
    await until(lambda: not runs(1))
    await send(app, engine, "More")
    await until(lambda: runs(2))
    app.parts.settings.set_value("background.stay_awake", False)
    await until(lambda: not runs(2))
    app.parts.settings.set_value("background.stay_awake", True)
    await until(lambda: runs(3))
    app.leave()
    await app.gone.wait()
    assert not runs(3)


async def test_a_program_s_reply_is_work_too(open_app: OpenApp) -> None:
    app = await ready_app(open_app)
    server, work_of = app.parts.server, app.parts.work
    server.status = ServerStatus(Stage.ON, "http://127.0.0.1:8484")
    seen = RequestSeen(number=1, client="editor", path="/v1/messages", state="writing")
    server._hear(seen)
    await until(lambda: work_of._busy)
    server._hear(seen.model_copy(update={"state": "done"}))
    await until(lambda: not work_of._busy)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps awake without a program")
def test_a_crash_lets_the_computer_sleep(tmp_path: Path) -> None:
    log = tmp_path / "log"
    crash = f"""
import asyncio, os
from desktop import background
background.PATIENCE_S = 0
background.command = lambda: ("sh", "-c", "echo on >> {log}; cat; echo off >> {log}")
async def main():
    awake = asyncio.ensure_future(background._stay_awake())
    while not os.path.exists("{log}"):
        await asyncio.sleep(0.01)
    os._exit(9)
asyncio.run(main())
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", crash], cwd=root, check=False)
    assert done.returncode == 9
    end = time.monotonic() + PATIENCE_S
    while log.read_text() != "on\noff\n":
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("desktop", "found", "first"),
    [
        ("ubuntu:GNOME", True, "gnome-session-inhibit"),
        ("KDE", True, "kde-inhibit"),
        ("KDE", False, "systemd-inhibit"),
        ("XFCE", True, "systemd-inhibit"),
        ("", True, "systemd-inhibit"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="desktops of Linux")
def test_each_desktop_has_its_program(
    desktop: str, found: bool, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", desktop)
    monkeypatch.setattr(shutil, "which", lambda name: name if found else None)
    name, *_, last = background.command()
    assert (name, last) == (first, "cat")
