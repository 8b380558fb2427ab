from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.api.model_info import published_name
from core.library.places import models_in
from desktop.engine.engine_status import remember_names, shown_name
from desktop.models.model_choice import first_folder, may_be_model


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def cached(cache: Path, name: str, *hashes: str) -> list[Path]:
    """The snapshot written last is at the end."""
    found = [model(cache / name / "snapshots" / each) for each in hashes]
    for age, snapshot in enumerate(reversed(found)):
        os.utime(snapshot, (1000 - age, 1000 - age))
    return found


def test_a_model_is_itself_and_other_folders_hold_none(tmp_path: Path) -> None:
    found = model(tmp_path / "a")
    assert models_in(found) == (found,)
    (tmp_path / "empty").mkdir()
    assert models_in(tmp_path / "empty") == ()
    assert models_in(tmp_path / "gone") == ()


def test_a_folder_of_the_hub_cache_is_its_newest_snapshot(tmp_path: Path) -> None:
    old, new = cached(tmp_path, "models--Org--Name", "aaa", "bbb")
    folder = tmp_path / "models--Org--Name"
    assert models_in(folder) == (new,)
    assert models_in(new) == (new,)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("aaa\n")
    assert models_in(folder) == (old,)
    for note in ("../../elsewhere", "", "ccc", "\x00"):
        (folder / "refs" / "main").write_text(note)
        assert models_in(folder) == (new,)


def test_gguf_files_are_models_of_their_folder(tmp_path: Path) -> None:
    folder = model(tmp_path / "Org" / "N-GGUF")
    for name in ("mmproj-N", "N-Q4_K_M", "N-Q8_0-00001-of-00002", "N-Q8_0-00002-of-00002"):
        (folder / f"{name}.gguf").touch()
    found = (folder / "N-Q4_K_M.gguf", folder / "N-Q8_0-00001-of-00002.gguf")
    assert models_in(folder) == models_in(tmp_path) == found
    (folder / "model.safetensors").touch()
    assert models_in(folder) == (folder,)


@pytest.mark.parametrize(
    ("names", "may"),
    [("N.gguf", True), ("folder", True), ("a.png", False), ("a.gguf b.gguf", True),
     ("a.gguf b.png", False), ("", False)],
)  # fmt: skip
def test_dropped_names_that_may_be_models(names: str, may: bool) -> None:
    assert may_be_model([Path(name) for name in names.split()]) is may


def test_files_of_ollama_have_its_names() -> None:
    path = f"/o/blobs/sha256-{'a' * 64}"
    assert shown_name(path) == "Ollama model aaaaaaaa"
    remember_names({path: "n:4b", "/m/N.gguf": "Org/N"})
    assert (shown_name(path), shown_name("/m/N.gguf")) == ("n:4b", "N")


def test_a_parent_stands_for_all_models_in_it(tmp_path: Path) -> None:
    (one,) = cached(tmp_path / "hub", "models--Org--One", "aaa")
    two = model(tmp_path / "hub" / "two")
    (tmp_path / "hub" / "datasets--Org--Words").mkdir()
    assert models_in(tmp_path / "hub") == (one, two)
    assert models_in(tmp_path) == (one, two)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/c/models--Org--Name/snapshots/0a1b2c", "Org/Name"),
        ("/c/models--Org--Name--v2/snapshots/0a1b2c", "Org/Name--v2"),
        ("/c/models--Org--Name", "Org/Name"),
        ("/c/models--gpt2/snapshots/0a1b2c", "gpt2"),
        ("/models/plain", "plain"),
        ("/models/snapshots/plain", "plain"),
        ("/models/N-Q4_K_M.gguf", "N-Q4_K_M"),
        ("/c/models--Org--N-GGUF/snapshots/0a1b2c/N-UD-Q8_0-00001-of-00002.GGUF", "N-UD-Q8_0"),
        ("/models/.gguf", ".gguf"),
    ],
)
def test_a_model_is_named_by_org_and_name_and_never_by_a_hash(path: str, name: str) -> None:
    assert published_name(path) == name


def test_the_dialog_begins_beside_the_last_model_or_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    (snapshot,) = cached(tmp_path / "hub", "models--Org--One", "aaa")
    environment = {"HF_HOME": str(tmp_path)}
    assert first_folder(str(snapshot), (), environment) == str(tmp_path / "hub")
    other = model(tmp_path / "mine" / "other")
    assert first_folder(str(other), (str(snapshot),), environment) == str(tmp_path / "mine")
    unusable = str(tmp_path / ("x" * 300) / "model")
    assert first_folder(unusable, (str(other),), environment) == str(tmp_path / "mine")
    assert first_folder("/gone/model", (), environment) == str(tmp_path / "hub")
    assert first_folder("", (), {"HF_HUB_CACHE": "/gone"}) == ""
    cache = tmp_path / "x" / "huggingface" / "hub"
    cache.mkdir(parents=True)
    assert first_folder("", (), {"XDG_CACHE_HOME": str(tmp_path / "x")}) == str(cache)
