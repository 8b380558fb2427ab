"""Released shapes, whole and cut: sizes, kinds of layers, names in the files, what is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from core.models.decoder import Decoder
from core.weights.folder import ModelFolder
from tests.bench.folders import NoRoomError, numbers_in, published, write_folder
from tests.bench.llama.files import CONVERTERS
from tests.bench.options import parsed
from tests.bench.shapes import RELEASES, ShapeError, chosen, cuts, described, names
from tests.bench.weights import held_bytes, step_bytes, token_operations
from tests.oracle.runs import load

EXPERTS = ".experts."


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("35B-A3B", 34.66),
        ("Qwen3-Next-80B-A3B", 79.67),
        ("Qwen3-30B-A3B", 30.53),
        ("Falcon-H1-0.5B", 0.52),
        ("Granite-4-H-350M", 0.34),
        ("Nemotron-H-8B", 8.10),
        ("Jamba-1.5-Mini", 51.57),
    ],
)
def test_a_release_has_as_many_numbers_as_it_is_named_after(name: str, billions: float) -> None:
    cut = chosen(name)
    assert cut.is_whole and cut.layers == cut.whole == cut.config["num_hidden_layers"]
    assert round(numbers_in(published(cut.config, cut.fused)) / 1e9, 2) == billions


@pytest.mark.parametrize("name", RELEASES)
def test_every_layer_of_a_letter_is_made_alike(name: str) -> None:
    """The letters are what a cut goes by, so they have to be what the family builds."""
    cut, made = chosen(name), Counter[tuple[str, int]]()
    for tensor, spec in published(cut.config, cut.fused).items():
        _, _, inside = tensor.partition(".layers.")
        made[inside.partition(".")[0], spec.num_elements] += 1
    layers = [
        frozenset((size, count) for (each, size), count in made.items() if each == str(layer))
        for layer in range(cut.whole)
    ]
    kinds = RELEASES[name].kinds
    assert len(set(layers)) == len(set(kinds)) == len(set(zip(layers, kinds, strict=True)))


@pytest.mark.parametrize("name", names())
def test_a_cut_has_the_mix_of_the_whole(name: str) -> None:
    whole = chosen(name)
    smallest = chosen(f"{name}/{chosen(name, quick=True).layers}")
    assert whole.whole == smallest.whole and whole.whole % smallest.layers == 0
    # Alike in their mix, layers weigh as much on average.
    every, few = (numbers_in(published(each.config), ".layers.") for each in (whole, smallest))
    assert few * whole.whole == every * smallest.layers


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("35B-A3B/6", "a cut has a multiple of 4 up to 40 layers"),
        ("35B-A3B/", "a multiple of 4"),
        ("35B-A3B/44", "a multiple of 4"),
        ("9B/-4", "a multiple of 4 up to 32"),
        ("Nemotron-H-8B/14", "a multiple of 13 up to 52"),
        ("Falcon-H1-0.5B/0", "1 to 36 layers"),
        ("Granite-4-H-350M/four", "a multiple of 8"),
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


def test_cuts_of_no_regular_kinds_are_named_one_by_one() -> None:
    assert cuts("AABABB") == [2, 4, 6]
    assert cuts("AAABBB") == [2, 4, 6]
    assert cuts("AABCB") == [5]


def test_ops_are_measured_at_the_dense_shapes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(["--shape", "9B/8"]).names == ["ops", "model"]
    assert parsed(["--shape", "9B", "35B-A3B/4"]).names == ["model"]
    with pytest.raises(SystemExit):
        parsed(["ops", "--shape", "0.8B", "35B-A3B/4"])
    assert "of 35B-A3B/4 there is the whole model alone" in capsys.readouterr().err


def test_a_heading_says_what_is_left_and_what_words_cost() -> None:
    assert described("0.8B", False) == "The 0.8B shape, random weights"
    assert described("35B-A3B/4", True) == "A tiny shape"
    assert described("35B-A3B/4", False) == (
        "The 35B-A3B shape, random weights, cut to 4 of its 40 layers, 4.38 B numbers, of them "
        "1.02 B the table and head of 248,320 words"
    )
    assert described("Granite-4-H-350M", False).endswith(
        "weights, 0.34 B numbers, of them 0.08 B the table and head of 100,352 words"
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
    assert set(outside) <= {"embed_tokens", "embeddings", "lm_head"}
    assert sorted(outside.values()) == sorted(
        spec.shape for each, spec in head.items() if ".layers." not in each and "norm" not in each
    )
    assert cut.config["model_type"] in CONVERTERS and cut.head()["model_type"] in CONVERTERS


@pytest.mark.parametrize(("name", "fused"), [("35B-A3B", True), ("Qwen3-Next-80B-A3B", False)])
def test_idle_experts_are_not_read(name: str, fused: bool, tmp_path: Path) -> None:
    cut = chosen(name, quick=True)
    files = ModelFolder.open(write_folder(tmp_path / "tiny", cut.config, fused=cut.fused))
    tensors = published(cut.config, cut.fused)
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


def test_a_folder_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=7 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    cut = chosen("35B-A3B/4")
    with pytest.raises(NoRoomError, match=r"take 8\.8 GB, and .* has room for 7\.0"):
        write_folder(tmp_path / "large", cut.config, fused=cut.fused)
    assert not (tmp_path / "large" / "model.safetensors").exists()
