"""Model folders: what is missing is named, what is hostile is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    GgufError,
    MissingFileError,
    MissingTensorError,
    PickleWeightsError,
    UnsupportedQuantisationError,
    WaymarkError,
)
from core.weights.published.folder import ModelFolder
from core.weights.published.scheme import MODELOPT, read_scheme
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
    assert folder.tensors.keys() == {"tensor of model.safetensors"}


NVFP4 = {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("", BrokenConfigError, "valid JSON"),
        ("[]", BrokenConfigError, "JSON object"),
        ("[" * 100_000, BrokenConfigError, "can't be read"),
        (" " * (4 * 2**20 + 1), BrokenConfigError, "more than 4 MiB"),
        ("{}", BrokenConfigError, "is not an object"),
        ({"quantization": "NVFP4"}, BrokenConfigError, "is not an object"),
        (
            {"quantization": NVFP4 | {"exclude_modules": "lm_head"}},
            BrokenConfigError,
            "exclude_mod",
        ),
        ({"quantization": NVFP4 | {"exclude_modules": ["a"] * 20_001}}, BrokenConfigError, "long"),
        ({"quantization": NVFP4 | {"quant_algo": 4}}, UnsupportedQuantisationError, "algo = 4"),
        ({"quantization": NVFP4 | {"group_size": 32}}, UnsupportedQuantisationError, "size = 32"),
        *(
            ({"quantization": {"quant_algo": algo}}, UnsupportedQuantisationError, algo.lower())
            for algo in ("FP8", "FP8_PB_WO", "NVFP4_AWQ", "MXFP8", "MIXED_PRECISION")
        ),
    ],
)
def test_G3_what_modelopts_file_says_is_checked(
    tmp_path: Path, said: object, error: type[WaymarkError], words: str
) -> None:
    make_folder(tmp_path, "model.safetensors")
    text = said if isinstance(said, str) else json.dumps(said)
    (tmp_path / MODELOPT).write_text(text)
    with pytest.raises(error, match=words) as caught:
        ModelFolder.open(tmp_path)
    assert len(caught.value.message) < 400
    assert error is UnsupportedQuantisationError or MODELOPT in caught.value.message


@pytest.mark.parametrize("quantisation", [NVFP4, NVFP4 | {"quant_algo": "W4A16_NVFP4"}, {}])
def test_modelopts_file_names_the_format(tmp_path: Path, quantisation: object) -> None:
    make_folder(tmp_path, "model.safetensors")
    (tmp_path / MODELOPT).write_text(json.dumps({"quantization": quantisation}))
    scheme = read_scheme(ModelFolder.open(tmp_path).config)
    assert (scheme is None) == (quantisation == {})
    assert scheme is None or (scheme.format.title, scheme.leaves_out("lm_head")) == ("NVFP4", True)


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


@pytest.mark.parametrize(
    "weight_map",
    [
        None,
        [],
        {},
        3,
        "a",
        *({"a": name} for name in (3, None, True, {"a": "b"}, ["a.safetensors"])),
    ],
)
def test_an_index_maps_tensors_to_file_names(tmp_path: Path, weight_map: Any) -> None:
    write_index(make_folder(tmp_path, "a.safetensors"), weight_map)
    with pytest.raises(BrokenWeightsError, match="weight_map"):
        ModelFolder.open(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "a", "a.safetensors.txt", "\ud800.safetensors"])
def test_an_index_names_weights_files_only(tmp_path: Path, name: Any) -> None:
    write_index(make_folder(tmp_path, "a.safetensors"), {"a": name})
    with pytest.raises(BrokenWeightsError, match="isn't a weights file") as caught:
        ModelFolder.open(tmp_path)
    assert caught.value.info().message.isprintable()


def test_a_hostile_name_in_an_index_is_shown_short(tmp_path: Path) -> None:
    make_folder(tmp_path, "a.safetensors")
    write_index(tmp_path, {"\ud800" + "x" * 10**6: "a.safetensors"})
    with pytest.raises(MissingTensorError) as caught:
        ModelFolder.open(tmp_path)
    message = caught.value.info().message
    assert message.isprintable() and len(message) < 300


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


ODD: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "pipe": make_pipe,
    "link-to-itself": lambda path: path.symlink_to(path.name),
    "link-to-nothing": lambda path: path.symlink_to("gone"),
    "link-to-a-folder": lambda path: path.symlink_to(path.parent),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "a.safetensors", INDEX])
@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_what_is_no_file_is_missing(
    tmp_path: Path, make: Callable[[Path], object], name: str
) -> None:
    """Reading a pipe would wait for ever."""
    make_folder(tmp_path)
    if name == "config.json":
        (tmp_path / name).unlink()
    if name == "a.safetensors":
        write_index(tmp_path, {"a": name})
    make(tmp_path / name)
    with pytest.raises(MissingFileError, match="model.safetensors" if name == INDEX else name):
        ModelFolder.open(tmp_path)


def test_a_name_too_long_for_the_system_is_an_error_with_a_name(tmp_path: Path) -> None:
    write_index(make_folder(tmp_path), {"a": "x" * 100 + ".safetensors", "b": "y.safetensors"})
    with pytest.raises(MissingFileError, match="xxx"):
        ModelFolder.open(tmp_path)
    write_index(tmp_path, {"a": "x" * 5000 + ".safetensors"})
    with pytest.raises(BrokenWeightsError, match="xxx"):
        ModelFolder.open(tmp_path)


def test_one_file_goes_before_an_index_left_behind(tmp_path: Path) -> None:
    make_folder(tmp_path, "model.safetensors")
    write_index(tmp_path, {"old": "model-00001-of-00002.safetensors"})
    folder = ModelFolder.open(tmp_path)
    assert folder.tensors.keys() == {"tensor of model.safetensors"}


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


DEEP = b'{"a":' * 300 + b"1" + b"}" * 300


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"\xff\xff", b"[" * 100_000, b'{"a": 1' * 3, DEEP]
)
def test_a_broken_config_is_named(tmp_path: Path, content: bytes) -> None:
    (make_folder(tmp_path, "model.safetensors") / "config.json").write_bytes(content)
    with pytest.raises(BrokenConfigError, match=r"config\.json"):
        ModelFolder.open(tmp_path)


def test_every_error_has_words_for_a_dialog(tmp_path: Path) -> None:
    with pytest.raises(WaymarkError) as caught:
        ModelFolder.open(tmp_path)
    info = caught.value.info()
    assert info.title == "This folder holds no model"
    assert info.message.endswith(" has no config.json.")


def test_a_folder_of_gguf_files_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "model-Q4_K_M.GGUF").write_bytes(b"GGUF")
    with pytest.raises(GgufError, match="holds several GGUF files"):
        ModelFolder.open(tmp_path)
    (tmp_path / "config.json").write_text("{")
    # A published folder that has one beside its weights is read as ever.
    with pytest.raises(BrokenConfigError):
        ModelFolder.open(tmp_path)
