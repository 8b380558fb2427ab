"""A backup holds everything, is checked before anything is replaced, and loses nothing."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from core.api.archive import ArchivedChat
from core.api.errors import WaymarkError
from core.api.params import ModelSettings
from desktop.app import App
from desktop.export import export_menu
from desktop.export.archive import read_archive
from desktop.export.backup import ENTRY, portable, with_portable
from desktop.store import backups, restored
from desktop.store.database import open_database
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings, Preset, PresetSettings
from desktop.store.settings_file import SettingsFile
from desktop.store.tables import chats
from desktop.store.tables import folders as folder_table
from desktop.store.tables.records import Begin
from desktop.window.window_parts import WindowParts
from tests.desktop.conftest import OpenApp, until
from tests.desktop.export.test_export import talked
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import find, press, send

FIRST = "chats/000001.json"
BEGIN = Begin("In verse.", None, {"temperature": 0.5})
PRESETS = PresetSettings(default="Poet", presets=(Preset(name="Poet", system="In verse."),))


async def backed_up(app: App, engine: FakeEngine, folder: Path) -> Path:
    """A backup of a chat with a picture and two replies, in a folder, and of a preset."""
    chat = await talked(app, engine, folder)
    app.parts.settings.put(presets=PRESETS)
    # Without chats; one has the name of the chat's.
    for name in ("Play", "Work"):
        await app.parts.database.run(folder_table.create, name)
    made = await app.parts.database.run(folder_table.create, "Work", "Poet", BEGIN)
    await app.parts.database.run(folder_table.move, [chat], made)
    await app.parts.chats.refresh()
    path = folder / "all.zip"
    await app.parts.backup.write(path)
    return path


async def contents(parts: WindowParts) -> list[ArchivedChat | None]:
    listed = await parts.database.run(chats.listed)
    return [await parts.database.run(read_archive, each.id) for each in listed]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.*")}


async def test_U2_a_backup_comes_back_in_another_folder(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    path = await backed_up(app, engine, tmp_path)
    fresh = Folders.choose(str(tmp_path / "fresh"))
    fresh.create()
    parts = WindowParts(fresh, FakeEngine())
    parts.begin()
    await until(lambda: parts.engine.model)
    info = await parts.backup.prepare(path)
    assert (info.chats, info.pictures) == (1, 1)
    parts.backup._info = info
    ready: list[bool] = []
    parts.backup.ready.connect(lambda: ready.append(True))
    parts.backup.accept()
    await until(lambda: ready)
    # Nothing is replaced before the next start, and no picture is unused until then.
    assert await contents(parts) == []
    await parts.close()
    again = WindowParts(fresh, FakeEngine())
    try:
        assert again.restored.startswith("The backup is restored.")
        assert not list(fresh.data.glob("chats.resto*"))
        assert await contents(again) == await contents(app.parts)
        assert again.settings.settings.presets == PRESETS
        folders = await again.database.run(folder_table.listed)
        assert [(each.name, each.begin) for each in folders] == [
            ("Play", None), ("Work", None), ("Work", BEGIN)]  # fmt: skip
        (digest,) = restored_pictures(fresh)
        assert (fresh.pictures / digest[:2] / digest).exists()
    finally:
        await again.close()


async def test_a_backup_without_chats_brings_its_settings(
    app: App, folders: Folders, tmp_path: Path
) -> None:
    app.parts.settings.put(presets=PRESETS)
    await app.parts.backup.write(tmp_path / "all.zip")
    info = await app.parts.backup.prepare(tmp_path / "all.zip")
    assert info.chats == 0 and with_portable(AppSettings(), info.settings).presets == PRESETS
    await app.parts.backup._discard()
    assert not list(folders.data.glob("chats.resto*"))


def restored_pictures(found: Folders) -> list[str]:
    with closing(sqlite3.connect(found.database)) as connection:
        return [digest for (digest,) in connection.execute("SELECT digest FROM pictures")]


async def test_what_was_there_is_kept_beside(
    open_app: OpenApp,
    engine: FakeEngine,
    folders: Folders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = await open_app()
    path = await backed_up(app, engine, tmp_path)
    before = await contents(app.parts)
    app.parts.chat.open(None)
    (await send(app, engine, "A later chat")).finish("Yes")
    await until(lambda: len(app.parts.chat_list.chats) == 2)

    async def chosen(*_: object) -> Path:
        return path

    monkeypatch.setattr(export_menu, "choose_restored", chosen)
    app.window.actions_by_name["actionRestore"].trigger()
    await until(lambda: find(app, QLabel, "restoreWords").isVisible())
    said = find(app, QLabel, "restoreWords").text()
    assert "1 chat, 3 messages, 1 picture" in said and "(2)" in said
    assert not app.window.toast.isVisible()
    press(app, "restoreNo")
    await until(lambda: "chats.restoring.db" not in files(folders.data))
    app.window.actions_by_name["actionRestore"].trigger()
    await until(lambda: find(app, QLabel, "restoreWords").isVisible())
    press(app, "restoreYes")
    await app.gone.wait()
    again = await open_app(FakeEngine())
    await until(lambda: again.parts.chats.shown)
    assert await contents(again.parts) == before
    # The other one was the backup of the day.
    (aside,) = (
        path for path in folders.data.glob("chats.aside-*") if path.name in again.parts.restored
    )
    with closing(open_database(aside)) as connection:
        titles = {each.title for each in chats.listed(connection)}
    assert titles == {"Which bird?", "A later chat"}
    assert len(list(folders.data.glob("settings.aside-*.json"))) == 1
    assert "chats.restored.db" not in files(folders.data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def changed(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") - 40] ^= 1
    path.write_bytes(data)


def without(ending: str) -> Callable[[Path], None]:
    def change(entries: dict[str, bytes]) -> None:
        del entries[next(name for name in entries if name.endswith(ending))]

    return lambda path: changed(path, change)


def newer(path: Path) -> None:
    def change(entries: dict[str, bytes]) -> None:
        entries[ENTRY] = json.dumps({**json.loads(entries[ENTRY]), "waymark_backup": 2}).encode()

    changed(path, change)


def outside(path: Path) -> None:
    changed(path, lambda entries: entries.update({"../../chats.db": b"x"}))


def broken_chat(path: Path) -> None:
    def change(entries: dict[str, bytes]) -> None:
        entries[FIRST] = entries[FIRST].replace(b'"parent":0', b'"parent":7')

    changed(path, change)


def other_picture(path: Path) -> None:
    """A chat that is neither in the backup nor here."""

    def change(entries: dict[str, bytes]) -> None:
        text = re.sub(rb'"digest":"\w+"', b'"digest":"%s"' % (b"0" * 64), entries[FIRST])
        entries[FIRST] = text

    changed(path, change)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut, "damaged"),
        (flipped, "damaged|not complete"),
        (other_picture, "not complete. It should hold 1 chat, 3 messages, 1 picture"),
        (without("000001.json"), "contains no chats"),
        (without(ENTRY), "not a backup of Waymark"),
        (newer, "newer version"),
        (outside, "names that point outside"),
        (broken_chat, "Chat 1 in it can't be read: Which bird"),
    ],
)
async def test_what_is_damaged_or_hostile_is_refused_by_name(
    app: App,
    engine: FakeEngine,
    folders: Folders,
    tmp_path: Path,
    harm: Callable[[Path], None],
    said: str,
) -> None:
    path = await backed_up(app, engine, tmp_path)
    before, kept = await contents(app.parts), files(folders.data)
    harm(path)
    with pytest.raises(WaymarkError) as refusal:
        await app.parts.backup.prepare(path)
    assert any(each in refusal.value.message for each in said.split("|"))
    await app.parts.backup._discard()
    assert await contents(app.parts) == before
    assert files(folders.data) == kept


async def test_a_question_is_withdrawn_when_another_backup_is_checked(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    path = await backed_up(app, engine, tmp_path)
    words = find(app, QLabel, "restoreWords")
    app.parts.backup.restore(path)
    await until(words.isVisible)
    cut(path)
    app.parts.backup.restore(path)
    toast = find(app, QLabel, "toastText")
    await until(lambda: "The backup can't be restored" in toast.text())
    # Its button would do nothing.
    assert not words.isVisible()


class Killed(BaseException): ...


@pytest.mark.parametrize("at", range(8))
def test_a_start_that_is_killed_loses_nothing(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    with closing(open_database(folders.database)) as connection:
        chats.create(connection, "old")
        backups.make(connection, folders.database)
    SettingsFile(folders.settings_file).save(AppSettings())
    with closing(open_database(restored.unfinished(folders))) as connection:
        chats.create(connection, "new")
    restored.finish(folders, AppSettings(presets=PRESETS))
    left = [at]

    def rename(source: Path, target: Path) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        source.rename(target)

    monkeypatch.setattr(restored, "rename", rename)
    monkeypatch.setattr(backups, "rename", rename)
    try:
        restored.take(folders)
    except Killed:
        monkeypatch.undo()
        restored.take(folders)
    assert SettingsFile(folders.settings_file).load()[0].presets == PRESETS
    titles = []
    for path in (folders.database, *folders.data.glob("chats.aside-*.db")):
        with closing(open_database(path)) as connection:
            titles.append([each.title for each in chats.listed(connection)])
    assert titles == [["new"], ["old"], ["old"]]
    assert restored.take(folders) is None


def test_a_kill_before_the_end_leaves_what_was_there(folders: Folders) -> None:
    with closing(open_database(folders.database)) as connection:
        chats.create(connection, "old")
    with closing(open_database(restored.unfinished(folders))) as connection:
        chats.create(connection, "half")
    before = files(folders.data)
    assert restored.take(folders) is None
    assert files(folders.data) == before - {"chats.restoring.db"}


def test_a_backup_holds_nothing_of_this_computer() -> None:
    settings = AppSettings(model=ModelSettings(path="/models/mine"), presets=PRESETS)
    named = settings.presets.presets[0].model_copy(update={"model": "/models/mine"})
    settings = settings.model_copy(
        update={"presets": settings.presets.model_copy(update={"presets": (named,)})}
    )
    stored = portable(settings)
    assert "/models" not in json.dumps(stored)
    assert {"network", "server", "remote", "model", "library", "cache"}.isdisjoint(stored)
    hostile = {**stored, "network": {"proxy": "http://evil.example"}, "server": {"on": True}}
    hostile["presets"]["presets"][0]["model"] = "//evil.example/share"
    back = with_portable(AppSettings(), hostile)
    assert back == AppSettings(presets=PRESETS)
