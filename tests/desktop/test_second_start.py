"""A second start raises the window of the first; nothing else can be asked of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from core.client.lock import DataFolderLock
from desktop import starting
from desktop.app import App, raised_elsewhere
from desktop.starting import ask_to_raise, asking_folder
from desktop.store.folders import Folders
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.hands import settle

ROOT = Path(__file__).parents[2]


@pytest.fixture
def raises(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr("desktop.window.main_window.MainWindow.raise_", lambda _: told.append("up"))
    return told


def start(folders: Folders) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "desktop", "--data", str(folders.data)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_a_second_start_ends_well_and_raises_the_first_window(
    folders: Folders, raises: list[str], app: App
) -> None:
    lock = DataFolderLock(folders.data)
    app.window.showMinimized()
    second = start(folders)
    try:
        await until(lambda: second.poll() is not None)
    finally:
        second.kill()
        said, _ = second.communicate()
        lock.release()
    assert second.returncode == 0
    assert b"already running; its window was brought to the front" in said
    assert raises == ["up"]
    assert not app.window.windowState() & Qt.WindowState.WindowMinimized
    assert list(asking_folder(folders.data).iterdir()) == []


async def test_a_first_that_does_not_answer_is_given_up(
    folders: Folders, qloop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "ANSWER_WITHIN_S", 0.1)
    assert not await raised_elsewhere(str(folders.data))
    asking_folder(folders.data).mkdir()
    assert not await ask_to_raise(folders.data)
    assert list(asking_folder(folders.data).iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets few users make links")
@pytest.mark.parametrize(
    "put",
    [
        lambda folder: (folder / "raise-7").symlink_to(ROOT / "README.md"),
        lambda folder: (folder / "raise-7" / "inner").mkdir(parents=True),
        lambda folder: (folder / "raise-7").write_bytes(b'{"raise": 1, "path": "/etc"}\0' * 1000),
        lambda folder: (folder / "raise-7; rm -rf").touch(),
    ],
    ids=["link", "folder", "words", "name"],
)
async def test_whatever_else_is_put_there_changes_nothing(
    folders: Folders, raises: list[str], put: Callable[[Path], object], app: App
) -> None:
    before = seen(app)
    put(asking_folder(folders.data))
    there = sorted(asking_folder(folders.data).rglob("*"))
    if sys.platform != "win32":
        assert asking_folder(folders.data).stat().st_mode & 0o777 == 0o700
    await settle()
    assert raises == [] and seen(app) == before
    assert sorted(asking_folder(folders.data).rglob("*")) == there
    # And who really asks is heard all the same.
    assert await ask_to_raise(folders.data)
    assert raises == ["up"]


def seen(app: App) -> tuple[object, ...]:
    parts = app.parts
    return parts.settings.settings, parts.transcript.rows, parts.chat.draft.text, app.window.size()


async def test_a_folder_that_leads_elsewhere_is_left_alone(
    open_app: OpenApp, folders: Folders, tmp_path: Path, raises: list[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    asking_folder(folders.data).symlink_to(other)
    await open_app()
    (other / "raise-7").touch()
    await asyncio.sleep(0.2)
    assert raises == [] and (other / "raise-7").exists()
