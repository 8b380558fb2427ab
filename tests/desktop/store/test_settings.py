"""The settings' file: read, written whole, kept aside when it can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.params import CacheSettings, ModelSettings
from desktop.store.folders import DATA_VARIABLE, DEMO_MODEL, Folders
from desktop.store.settings import RECENT_MODELS, AppSettings, SettingsFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_what_was_saved_is_loaded(file: Path) -> None:
    settings = AppSettings(cache=CacheSettings(count=7, interval=512), thinking=False)
    SettingsFile(file).save(settings)
    assert SettingsFile(file).load() == (settings, "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_no_file_is_no_trouble(file: Path) -> None:
    assert SettingsFile(file).load() == (AppSettings(), "")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cache": {"count": -1}}', '{"cache": {"counts": 3}}', "\0" * 64]
)
def test_a_damaged_file_gives_defaults_and_is_kept(file: Path, text: str) -> None:
    file.write_text(text)
    settings, notice = SettingsFile(file).load()
    assert settings == AppSettings()
    (kept,) = file.parent.glob("settings.damaged-*.json")
    assert kept.read_text() == text
    assert kept.name in notice


def test_recent_models_come_in_order_without_the_demo() -> None:
    settings = AppSettings()
    for name in ("a", "b", str(DEMO_MODEL), "a", *"cdefghijk"):
        settings = settings.with_model(ModelSettings(path=name))
    assert settings.recent_models[:3] == ("k", "j", "i")
    assert len(settings.recent_models) == RECENT_MODELS
    assert AppSettings().with_model(ModelSettings(path=str(DEMO_MODEL))).model.path == ""
    assert AppSettings().model_to_load().path == str(DEMO_MODEL)


def test_a_chosen_folder_holds_everything_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "from the variable"))
    assert Folders.choose().data == tmp_path / "from the variable"
    folders = Folders.choose(str(tmp_path / "given"))
    folders.create()
    assert folders.data == folders.settings == tmp_path / "given"
    for folder in (folders.data, folders.pictures, folders.engine_log.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folders = Folders.choose(str(tmp_path))
    folders.create()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert folders.pictures.stat().st_mode & 0o777 == 0o700


def test_the_platforms_folders_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    folders = Folders.choose()
    assert folders.data.name == folders.settings.name == "waymark"
