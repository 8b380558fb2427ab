"""Released shapes, whole and cut: sizes, kinds of layers, names in the files, refusals."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from core.models.decoder import Decoder
from core.weights.published.folder import ModelFolder
from tests.bench.folders import NoRoomError, numbers_in, published, write_folder
from tests.bench.options import parsed
from tests.bench.shapes import RELEASES, ShapeError, chosen, described, names
from tests.bench.weights import active_experts, held_bytes, step_bytes, token_operations
from tests.gguf.llama_converter import TEXT
from tests.oracle.runs import load

EXPERTS = ".experts."


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("35B-A3B", 34.66),
        ("Falcon-H1-0.5B", 0.52),
        ("gpt-oss-20b", 20.91),
        ("E2B", 4.63),
        ("E4B", 7.46),
        ("26B-A4B", 25.23),
        ("LFM2-8B-A1B", 8.34),
        ("LFM3-1.7B", 1.73),
        ("Kimi-Linear-48B-A3B", 49.12),
    ],
)
def test_a_release_has_as_many_numbers_as_it_is_named_after(name: str, billions: float) -> None:
    cut = chosen(name)
    assert cut.is_whole and cut.layers == cut.whole == cut.config["num_hidden_layers"]
    assert round(numbers_in(published(cut.config, cut.fused)) / 1e9, 2) == billions


@pytest.mark.parametrize("name", names())
def test_a_cut_has_the_mix_of_the_whole(name: str) -> None:
    whole = chosen(name)
    smallest = chosen(f"{name}/{chosen(name, quick=True).layers}")
    inexact = name in RELEASES and bool(RELEASES[name].in_cuts)
    assert whole.whole == smallest.whole
    assert inexact or whole.whole % smallest.layers == 0
    # Alike in their mix, layers cost as much on average; dense layers at the start nearly so.
    every, few = (_numbers_of_a_token(each.config) for each in (whole, smallest))
    share = few * whole.whole / (every * smallest.layers)
    assert abs(share - 1) <= (Fraction(1, 100) if inexact else 0)


def _numbers_of_a_token(config: Mapping[str, Any]) -> Fraction:
    """Numbers of the layers that a token goes through."""
    tensors = published(config)
    experts = numbers_in(tensors, EXPERTS)
    idle = 1 - active_experts(config) if experts else Fraction(0)
    return numbers_in(tensors, ".layers.") - experts * idle


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("35B-A3B/6", "a cut has a multiple of 4 up to 40 layers"),
        ("35B-A3B/", "a multiple of 4"),
        ("35B-A3B/44", "a multiple of 4"),
        ("9B/-4", "a multiple of 4 up to 32"),
        ("Falcon-H1-0.5B/0", "1 to 36 layers"),
        ("Falcon-H1-0.5B/four", "1 to 36 layers"),
        ("3B", "there is no shape 3B; there are 0.8B, "),
        ("3B/4", "there is no shape 3B"),
    ],
)
def test_another_mix_is_refused(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ShapeError, match=words):
        chosen(name)
    with pytest.raises(SystemExit):
        parsed(["model", "--shape", name])
    assert words in " ".join(capsys.readouterr().err.split())


def test_ops_are_measured_at_the_dense_shapes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(["--shape", "9B/8"]).names == ["ops", "model"]
    assert parsed(["--shape", "9B", "35B-A3B/4"]).names == ["model"]
    with pytest.raises(SystemExit):
        parsed(["ops", "--shape", "0.8B", "35B-A3B/4"])
    assert "of 35B-A3B/4 there is the whole model alone" in capsys.readouterr().err


def test_a_peer_that_lacks_a_shape_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["model", "--shape", "LFM3-1.7B", "--llama"])
    assert "llama.cpp has no LFM3-1.7B" in capsys.readouterr().err


def test_a_heading_says_what_is_left_and_what_words_cost() -> None:
    assert described("0.8B", False) == "The 0.8B shape, random weights"
    assert described("35B-A3B/4", True) == "A tiny shape"
    assert described("35B-A3B/4", False) == (
        "The 35B-A3B shape, random weights, cut to 4 of its 40 layers, 4.38 B numbers, of them "
        "1.02 B the table and head of 248,320 words"
    )


@pytest.mark.parametrize("name", names())
def test_what_is_left_without_layers_is_the_table_and_the_head(name: str) -> None:
    cut = chosen(name)
    whole, head = published(cut.config, cut.fused), published(cut.head())
    outside = {
        each.rpartition(".")[0].rpartition(".")[2]: spec.shape
        for each, spec in whole.items()
        if len(spec.shape) == 2 and ".layers." not in each and "visual" not in each
    }
    # Inputs of layers, in shapes that can't be cut.
    of_layers = {"embed_tokens_per_layer", "per_layer_model_projection"}
    assert set(outside) <= {"embed_tokens", "embeddings", "lm_head", *of_layers}
    assert sorted(shape for each, shape in outside.items() if each not in of_layers) == sorted(
        spec.shape for each, spec in head.items() if ".layers." not in each and "norm" not in each
    )
    known = {cut.config["model_type"], cut.head()["model_type"]} - TEXT.keys()
    assert known == ({"lfm3"} if name == "LFM3-1.7B" else set())


@pytest.mark.parametrize("fused", [True, False])
def test_idle_experts_are_not_read(fused: bool, tmp_path: Path) -> None:
    cut = chosen("35B-A3B", quick=True)
    files = ModelFolder.open(write_folder(tmp_path / "tiny", cut.config, fused=fused))
    tensors = published(cut.config, fused)
    assert files.tensors.keys() == tensors.keys()
    stacked = [each for each in tensors if each.endswith("mlp.experts.gate_up_proj")]
    assert bool(stacked) == fused and len(stacked) in (0, cut.layers)
    model = load(files.path)
    assert isinstance(model, Decoder)
    experts, table = numbers_in(tensors, EXPERTS), numbers_in(tensors, "embed_tokens")
    count, top_k = cut.config["num_experts"], cut.config["num_experts_per_tok"]
    idle = experts * (count - top_k) // count
    # In float32; what rotations turn by lies beside the weights.
    assert step_bytes(model) == 4 * (numbers_in(tensors) - table - idle)
    assert 0 <= held_bytes(model) - 4 * numbers_in(tensors) < 1024
    multiplied = sum(
        spec.num_elements
        for each, spec in tensors.items()
        if ".layers." in each and len(spec.shape) == 2
    )
    assert token_operations(files) == 2 * (multiplied - idle)


def test_layers_with_the_keys_of_others_are_skipped_and_experts_beside_dense_ones_idle(
    tmp_path: Path,
) -> None:
    small, large = (chosen(name, quick=True) for name in ("E2B", "26B-A4B"))
    files = ModelFolder.open(write_folder(tmp_path / "small", small.config, fused=True))
    multiplied = sum(
        spec.num_elements
        for name, spec in published(small.config, fused=True).items()
        if any(f".layers.{layer}." in name for layer in range(15)) and len(spec.shape) == 2
    )
    assert token_operations(files) == 2 * multiplied
    model = load(write_folder(tmp_path / "large", large.config, fused=True))
    assert isinstance(model, Decoder)
    tensors = published(large.config, fused=True)
    idle = numbers_in(tensors, EXPERTS) * 6 // 8
    assert 0 <= step_bytes(model) - 4 * (numbers_in(tensors) - idle) < 1024


def test_a_folder_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=7 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    cut = chosen("35B-A3B/4")
    with pytest.raises(NoRoomError, match=r"take 8\.8 GB, and .* has room for 7\.0"):
        write_folder(tmp_path / "large", cut.config, fused=cut.fused)
    assert not (tmp_path / "large" / "model.safetensors").exists()
