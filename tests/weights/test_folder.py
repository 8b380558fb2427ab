"""Model folders: what is missing is named, what is hostile is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    MissingFileError,
    MissingTensorError,
    PickleWeightsError,
    WaymarkError,
)
from core.weights.folder import ModelFolder
from tests.weights.files import write_sparse

INDEX = "model.safetensors.index.json"


def make_folder(path: Path, *names: str) -> Path:
    """A folder with a config and one small weights file for each name, each with one tensor."""
    (path / "config.json").write_text(json.dumps({"model_type": "test"}))
    for name in names:
        write_sparse(path / name, {f"tensor of {name}": ("F32", (2,))})
    return path


def write_index(path: Path, weight_map: Any) -> None:
    (path / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def test_a_single_file(tmp_path: Path) -> None:
    folder = ModelFolder.open(make_folder(tmp_path, "model.safetensors"))
    assert folder.config == {"model_type": "test"}
    assert [file.path.name for file in folder.files] == ["model.safetensors"]
    assert folder.tensor_names == {"tensor of model.safetensors"}


def test_shards_in_the_order_of_their_names(tmp_path: Path) -> None:
    make_folder(tmp_path, "b.safetensors", "a.safetensors", "unrelated.safetensors")
    write_index(tmp_path, {f"tensor of {name}.safetensors": f"{name}.safetensors" for name in "ba"})
    folder = ModelFolder.open(tmp_path)
    assert [file.path.name for file in folder.files] == ["a.safetensors", "b.safetensors"]


def test_links_are_followed(tmp_path: Path) -> None:
    """The Hugging Face cache keeps files elsewhere and links to them."""
    (tmp_path / "snapshot").mkdir()
    make_folder(tmp_path / "snapshot", "model.safetensors")
    (tmp_path / "snapshot" / "model.safetensors").rename(tmp_path / "blob")
    (tmp_path / "snapshot" / "model.safetensors").symlink_to(tmp_path / "blob")
    assert len(ModelFolder.open(tmp_path / "snapshot").files) == 1


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (make_folder(tmp_path, "model.safetensors") / missing).unlink()
    with pytest.raises(MissingFileError, match=missing):
        ModelFolder.open(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    make_folder(tmp_path, "a.safetensors")
    write_index(tmp_path, {"tensor of a.safetensors": "a.safetensors", "more": "b.safetensors"})
    with pytest.raises(MissingFileError, match=r"b\.safetensors"):
        ModelFolder.open(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", make_folder(tmp_path) / "config.json"):
        with pytest.raises(MissingFileError, match=path.name):
            ModelFolder.open(path)


def test_a_tensor_that_is_not_in_its_shard_is_named(tmp_path: Path) -> None:
    make_folder(tmp_path, "a.safetensors")
    write_index(tmp_path, {"absent": "a.safetensors"})
    with pytest.raises(MissingTensorError, match=r"absent is not in a\.safetensors"):
        ModelFolder.open(tmp_path)


def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    make_folder(tmp_path)
    for name in ("a.safetensors", "b.safetensors"):
        write_sparse(tmp_path / name, {"same": ("F32", (2,)), name: ("F32", (2,))})
    write_index(tmp_path, {"same": "a.safetensors", "b.safetensors": "b.safetensors"})
    with pytest.raises(BrokenWeightsError, match="same is in more than one"):
        ModelFolder.open(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../model.safetensors", "/etc/hostname", "sub/a.safetensors", "..", ".", "", "a\\b", "a\0b"],
)
def test_an_index_stays_inside_its_folder(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "folder"
    (inner / "sub").mkdir(parents=True)
    make_folder(inner)
    for place in (tmp_path / "model.safetensors", inner / "sub" / "a.safetensors"):
        write_sparse(place, {"a": ("F32", (2,))})
    write_index(inner, {"a": name})
    with pytest.raises((BrokenWeightsError, MissingFileError)):
        ModelFolder.open(inner)


@pytest.mark.parametrize("weight_map", [None, [], {}, 3, "a"])
def test_an_index_without_a_map_is_broken(tmp_path: Path, weight_map: Any) -> None:
    write_index(make_folder(tmp_path), weight_map)
    with pytest.raises(BrokenWeightsError, match="weight_map"):
        ModelFolder.open(tmp_path)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.pth", "last.ckpt", "x.pkl"]
)
def test_pickle_weights_are_refused(tmp_path: Path, name: str) -> None:
    (make_folder(tmp_path) / name).write_bytes(b"\x80\x04.")
    with pytest.raises(PickleWeightsError, match=name):
        ModelFolder.open(tmp_path)
    write_index(tmp_path, {"a": name})
    with pytest.raises(PickleWeightsError, match=name):
        ModelFolder.open(tmp_path)


def test_pickle_weights_beside_safe_ones_are_let_be(tmp_path: Path) -> None:
    (make_folder(tmp_path, "model.safetensors") / "optimizer.pt").write_bytes(b"\x80\x04.")
    assert len(ModelFolder.open(tmp_path).files) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"\xff\xff", b"[" * 100_000, b'{"a": 1' * 3]
)
def test_a_broken_config_is_named(tmp_path: Path, content: bytes) -> None:
    (make_folder(tmp_path, "model.safetensors") / "config.json").write_bytes(content)
    with pytest.raises(BrokenConfigError, match=r"config\.json"):
        ModelFolder.open(tmp_path)


def test_every_error_has_words_for_a_dialog(tmp_path: Path) -> None:
    with pytest.raises(WaymarkError) as caught:
        ModelFolder.open(tmp_path)
    info = caught.value.info()
    assert info.title == "A model file is missing"
    assert info.message.startswith("config.json is missing in ")
