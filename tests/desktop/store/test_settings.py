from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.api.params import CacheSettings
from desktop.store.folders import DATA_VARIABLE, DEMO_MODEL, Folders
from desktop.store.settings import RECENT_MODELS, AppSettings, Preset, PresetSettings
from desktop.store.settings_file import SettingsFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_what_was_saved_is_loaded(file: Path) -> None:
    assert SettingsFile(file).load() == (AppSettings(), "")
    settings = AppSettings(cache=CacheSettings(count=7, interval=512), thinking=False)
    SettingsFile(file).save(settings)
    assert SettingsFile(file).load() == (settings, "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\0" * 64, "\xff", "[" * 100_000, "1" * 10_000])
def test_a_damaged_file_gives_defaults_and_is_kept(file: Path, text: str) -> None:
    file.write_text(text, encoding="latin-1")
    settings, notice = SettingsFile(file).load()
    assert settings == AppSettings()
    (kept,) = file.parent.glob("settings.damaged-*.json")
    assert kept.read_text(encoding="latin-1") == text
    assert kept.name in notice


GOOD: dict[str, object] = {
    "model": {"path": "/models/a", "device": "cpu", "context_length": 4096},
    "recent_models": ["/models/a", "/models/b"],
    "sampling": {"temperature": 1, "top_k": 7, "stop": ["END"]},
    "thinking": True,
    "cache": {"count": 5, "interval": 1024},
    "ahead": {"settle": False},
}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cache.count", -1),
        ("cache.count", "5"),
        ("cache.count", None),
        ("cache", "none"),
        ("cache", []),
        ("model.path", 5),
        ("model.device", "a device that a newer version knows"),
        ("model", None),
        ("recent_models", [1, "/models/a", 2]),
        ("recent_models", "/models/a"),
        ("sampling.temperature", True),
        ("sampling.temperature", 1e400),
        ("sampling.stop", [""]),
        ("sampling.top_k", 1.5),
        ("thinking", "yes"),
        ("ahead.settle", 1),
    ],
)
def test_a_value_that_can_not_be_read_costs_its_key(file: Path, place: str, value: object) -> None:
    whole, _ = SettingsFile(written(file, GOOD)).load()
    keys = place.split(".")
    bad = json.loads(json.dumps(GOOD))
    inner = bad if len(keys) == 1 else bad[keys[0]]
    inner[keys[-1]] = value
    settings, notice = SettingsFile(written(file, bad)).load()
    assert notice.endswith(f" {place}.") and "a device" not in notice
    expected = whole.model_dump()
    default = AppSettings().model_dump()
    if len(keys) == 1:
        expected[keys[0]] = default[keys[0]]
    else:
        expected[keys[0]][keys[1]] = default[keys[0]][keys[1]]
    assert settings.model_dump() == expected
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def written(file: Path, values: object) -> Path:
    file.write_text(json.dumps(values))
    return file


def test_an_unknown_key_is_left_out_and_kept_for_the_version_that_knows_it(file: Path) -> None:
    newer = json.loads(json.dumps(GOOD))
    newer["voice"] = {"speed": 3, "names": ["a"]}
    newer["cache"]["sideways"] = True
    settings, notice = SettingsFile(written(file, GOOD)).load()
    kept = SettingsFile(written(file, newer))
    assert kept.load() == (settings, "") and notice == ""
    kept.save(settings.model_copy(update={"thinking": False}))
    after = json.loads(file.read_text())
    assert after["voice"] == newer["voice"] and after["cache"]["sideways"] is True
    assert after["cache"]["count"] == 5 and after["thinking"] is False


def test_half_a_character_costs_itself(file: Path) -> None:
    settings = AppSettings(thinking=True).with_model("/a\udcff")
    SettingsFile(file).save(settings)
    for path in ("/a?", "?"):
        loaded, notice = SettingsFile(file).load()
        assert loaded.thinking is True and loaded.model.path == path and notice == ""
        file.write_text('{"thinking": true, "model": {"path": "\\udcff"}}')


def test_a_model_that_can_not_be_read_costs_no_other(file: Path) -> None:
    models = [{"path": "/a", "name": "A"}, {"path": "/b", "precision": "int1"}, 3, {"path": "/c"}]
    file.write_text(json.dumps({"library": {"folders": ["/m"], "models": models}}))
    settings, notice = SettingsFile(file).load()
    assert notice == "" and settings.library.folders == ("/m",)
    assert [each.path for each in settings.library.models] == ["/a", "/c"]
    assert settings.choices_of("/a").name == "A"


def test_a_preset_follows_its_model(file: Path) -> None:
    presets = PresetSettings(presets=(Preset(name="A", model="/a"), Preset(name="B", model="/b")))
    moved = AppSettings(presets=presets).with_moved("/a", "/new")
    assert [each.model for each in moved.presets.presets] == ["/new", "/b"]


def test_a_folder_in_the_place_of_the_settings_is_put_aside(file: Path) -> None:
    file.mkdir()
    settings, notice = SettingsFile(file).load()
    assert settings == AppSettings() and "Is a directory" in notice
    SettingsFile(file).save(settings)


def test_recent_models_come_in_order_without_the_demo() -> None:
    settings = AppSettings()
    for name in ("a", "b", str(DEMO_MODEL), "a", *"cdefghijk"):
        settings = settings.with_model(name)
    assert settings.recent_models[:3] == ("k", "j", "i")
    assert len(settings.recent_models) == RECENT_MODELS
    assert AppSettings().with_model(str(DEMO_MODEL)).model.path == ""
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

    # A folder that was there keeps its permissions.
    tmp_path.chmod(0o755)
    folders = Folders.choose(str(tmp_path))
    folders.create()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert folders.pictures.stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv(DATA_VARIABLE)
    folders = Folders.choose()
    assert folders.data.name == folders.settings.name == "waymark"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_the_settings_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    settings, notice = SettingsFile(tmp_path / "settings.json").load()
    assert settings == AppSettings() and "it is not a file" in notice
