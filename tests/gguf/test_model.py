"""GGUF files from the path a person chose to a model that answers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFValueType

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    GgufError,
    MissingFileError,
    MissingTensorError,
    UnknownArchitectureError,
    WaymarkError,
    WrongShapeError,
)
from core.loading.files import open_files
from core.loading.plan import ModelPlan
from core.models.decoder import Decoder
from core.weights.container import Container, TensorStream
from core.weights.table import FileTable
from kernels.dispatch import backend
from tests.gguf.conftest import ConvertedOf
from tests.gguf.rewriting import Data, as_float32, blocks, decoded, rewrite
from tests.loads import load_model
from tests.oracle.runs import CPU, our_logits, text
from tests.promises.pictures import draw
from tests.replays import play

TEXT, U32, BOOL = GGUFValueType.STRING, GGUFValueType.UINT32, GGUFValueType.BOOL
TYPES = [GGMLQuantizationType[name] for name in ("Q4_0", "Q8_0", "Q4_K", "Q6_K")]
WORDS = [
    {"op": "send", "chat": "a", "content": "the quick brown fox"},
    {"op": "send", "chat": "a", "content": "and a red circle"},
]


def load(path: Path, dtype: torch.dtype = torch.float32) -> Decoder:
    kernels = backend("reference", dtype)
    return load_model(open_files(path).container, CPU, dtype, kernels=kernels).model


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_G1_blocks_have_their_exact_numbers(
    kind: GGMLQuantizationType, converted: ConvertedOf, tmp_path: Path
) -> None:
    """Permuted rows, columns that cross blocks, joined tensors, a table that stays in the file."""
    source, change = converted("wide").file, blocks(kind)
    quantised = load(rewrite(source, tmp_path / "blocks.gguf", change))
    exact = load(rewrite(source, tmp_path / "plain.gguf", decoded(blocks(kind))))
    assert torch.equal(our_logits(quantised, [text(20)]), our_logits(exact, [text(20)]))


def test_G1_per_layer_embeddings_stay_in_the_file(converted: ConvertedOf, tmp_path: Path) -> None:
    source, change = converted("wide-gemma4").file, blocks(GGMLQuantizationType.Q6_K)
    stored = rewrite(source, tmp_path / "blocks.gguf", change)
    exact = rewrite(source, tmp_path / "plain.gguf", decoded(blocks(GGMLQuantizationType.Q6_K)))
    tables = []
    for each in (load(stored), load(exact)):
        assert each.per_layer is not None and isinstance(each.per_layer._table, FileTable)
        tables.append(each.per_layer._table)
    ids = torch.tensor([0, 7, 499, 7])
    assert torch.equal(*(table(ids) for table in tables))
    stored.write_bytes(stored.read_bytes())
    with pytest.raises(BrokenWeightsError, match="changed"):
        tables[0](ids)


def test_older_files_have_other_names(converted: ConvertedOf, tmp_path: Path) -> None:
    made, kept = converted("qwen3next"), "linear_attn.in_proj_qkvz.weight"
    matrix = open_files(made.folder).container.look_up(f"model.layers.1.{kept}").numpy()
    apart = ["blk.1.attn_qkv.weight", "blk.1.attn_gate.weight"]
    added = {"blk.1.ssm_in.weight": matrix}
    older = rewrite(made.file, tmp_path / "older.gguf", without=apart, added=added)
    logits = [our_logits(load(each), [text(20)]) for each in (made.file, older)]
    assert torch.equal(*logits)

    seen = converted("qwen35").file
    other = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"}
    tower = seen.with_name(f"mmproj-{seen.name}")
    model = Path(shutil.copy(seen, tmp_path / "seen.gguf"))
    rewrite(
        tower, tmp_path / "mmproj-seen.gguf",
        rename=lambda name: re.sub("ffn_up|ffn_down", lambda found: other[found[0]], name),
    )  # fmt: skip
    name = "model.visual.blocks.0.mlp.linear_fc1.weight"
    first, second = (open_files(each).container.look_up(name) for each in (seen, model))
    assert first.shape == (64, 32) and torch.equal(first, second)


def test_G1_tensors_have_scales_of_their_own(converted: ConvertedOf, tmp_path: Path) -> None:
    """The converter writes NVFP4 scales like this: one number, or one for each expert."""
    source = converted("qwen35moe").file
    scales = {"blk.0.ffn_up_exps": np.array([2, 1, 0.5, 4, 1, 1, 2, 8]), "blk.1.attn_k": [4.0]}
    arrays = {name: np.array(each, np.float32) for name, each in scales.items()}

    def multiplied(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        scale = arrays.get(name.removesuffix(".weight"), np.ones(1, np.float32))
        return as_float32(name, data * scale.reshape(-1, *[1] * (data.ndim - 1)))

    added = {f"{name}.scale": each for name, each in arrays.items()}
    scaled = load(rewrite(source, tmp_path / "scaled.gguf", added=added))
    exact = load(rewrite(source, tmp_path / "exact.gguf", multiplied))
    assert torch.equal(our_logits(scaled, [text(20)]), our_logits(exact, [text(20)]))
    wrong = {"blk.0.ffn_up_exps.scale": np.ones(5, np.float32)}
    with pytest.raises(WrongShapeError, match="no scale for each"):
        load(rewrite(source, tmp_path / "wrong.gguf", added=wrong))


def test_G1_a_file_with_experts_alone_has_no_dense_width(
    converted: ConvertedOf, tmp_path: Path
) -> None:
    """Releases of qwen35moe have no intermediate_size in config.json."""
    source = converted("qwen35moe").file
    bare = rewrite(source, tmp_path / "bare.gguf", keys={"qwen35moe.feed_forward_length": None})
    assert torch.equal(our_logits(load(bare), [text(20)]), our_logits(load(source), [text(20)]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qwen35", "ALL_F32"),
        ("qwen35", "MOSTLY_Q8_0"),
        ("llama", "ALL_F32"),
        ("llama", "MOSTLY_BF16"),
    ],
)
def test_a_script_has_the_replies_of_the_folder(
    name: str, kind: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    made = converted(name, kind)
    ran = play(tmp_path, WORDS, "--model", made.file, "--dtype", "float32")
    assert ran.code == 0 and len(ran.answers) == 2
    if kind == "ALL_F32":
        expected = play(tmp_path, WORDS, "--model", made.folder, "--dtype", "float32")
        assert [each["reply"] for each in ran.answers] == [
            each["reply"] for each in expected.answers
        ]


@pytest.mark.parametrize("name", ["qwen35", "qwen3vl"])
def test_a_picture_is_seen_as_by_the_folder(
    name: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    made = converted(name)
    folder = Path(shutil.copytree(made.folder, tmp_path / "folder"))
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings["size"] = {"shortest_edge": 65_536, "longest_edge": 16_777_216}  # as the releases
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    draw(tmp_path / "x.png", 1, (300, 200))
    content = [{"image": "x.png"}, {"text": "a red circle"}]
    script: list[dict[str, Any]] = [{"op": "send", "chat": "a", "content": content}, *WORDS]
    ours, theirs = (
        play(tmp_path, script, "--model", path, "--dtype", "float32")
        for path in (made.file, folder)
    )
    assert ours.code == 0 and len(ours.answers) == 3
    assert [each["reply"] for each in ours.answers] == [each["reply"] for each in theirs.answers]
    assert ours.answers[0]["prompt_tokens"] == theirs.answers[0]["prompt_tokens"] > 60


def test_a_second_load_takes_quantised_matrices(converted: ConvertedOf, tmp_path: Path) -> None:
    file = converted("qwen35-mtp").file
    options = ("--model", file, "--data", tmp_path / "data", "--dtype", "int8", "--no-cache")
    first, second = (play(tmp_path, WORDS, *options) for _ in range(2))
    assert first.code == second.code == 0
    assert [each["reply"] for each in first.answers] == [each["reply"] for each in second.answers]
    plan = ModelPlan(open_files(file).container)
    assert plan.held(torch.bfloat16, with_mtp=True).has_mtp and plan.mtp_refused == ""


def read_all(container: Container) -> str:
    def take(stream: TensorStream) -> None:
        stream.fill(torch.empty(container.tensors[stream.name].shape))

    return container.read(container.tensors, take, lambda num_bytes: None, digest=True)


def test_the_digest_is_that_of_all_files(converted: ConvertedOf, tmp_path: Path) -> None:
    source = converted("qwen35").file
    folder = Path(shutil.copytree(source.parent, tmp_path / "model"))
    file, tower = folder / source.name, folder / f"mmproj-{source.name}"
    digests = [hashlib.sha256(each.read_bytes()).digest() for each in (file, tower)]
    container = open_files(file).container
    read: list[int] = []
    assert read_all(container) == hashlib.sha256(b"".join(digests)).hexdigest()
    name = "model.language_model.norm.weight"
    norm = torch.empty(container.tensors[name].shape)
    digest = container.read([name], lambda stream: stream.fill(norm), read.append, digest=False)
    assert digest == "" and sum(read) == container.num_bytes([name])
    tower.write_bytes(tower.read_bytes()[:-4] + b"abcd")
    with pytest.raises(BrokenWeightsError, match="changed while it was being read"):
        read_all(container)
    tower.unlink()
    with pytest.raises(MissingFileError):
        read_all(container)
    assert not load(file).has_vision, "without its tower it reads text"


@pytest.mark.parametrize("published", [False, True])
def test_G3_a_file_that_is_cut_while_it_is_read_is_named(
    published: bool, converted: ConvertedOf, tmp_path: Path
) -> None:
    change = blocks(GGMLQuantizationType.Q8_0)
    file = rewrite(converted("llama").file, tmp_path / "model.gguf", change)
    container, half = open_files(file).container, file.stat().st_size // 2
    kernels = backend("reference", torch.bfloat16, published=published)
    with pytest.raises(BrokenWeightsError, match="changed"):
        load_model(
            container, CPU, torch.bfloat16, lambda *_: os.truncate(file, half), kernels=kernels
        )


def test_a_tower_of_another_model_is_left_out(converted: ConvertedOf, tmp_path: Path) -> None:
    other = converted("wide").file
    shutil.copy(converted("qwen35").file, tmp_path / "model.gguf")
    for name in ("mmproj-a.gguf", "MMPROJ-b.GGUF"):
        shutil.copy(other.with_name(f"mmproj-{other.name}"), tmp_path / name)
    (tmp_path / "mmproj.txt").write_text("no file of this format")
    assert not load(tmp_path / "model.gguf").has_vision
    assert open_files(other).container.config["image_token_id"] == 305
    (tmp_path / "mmproj-model.gguf").write_bytes(b"no tower")
    with pytest.raises(BrokenWeightsError, match="is damaged"):
        open_files(tmp_path / "model.gguf")


def test_a_path_may_be_a_folder_or_a_blob_without_ending(
    converted: ConvertedOf, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(converted("qwen35").file.parent, tmp_path / "model"))
    assert load(folder).has_vision
    blob = Path(shutil.copy(converted("llama").file, folder / "sha256-0a1b"))
    assert open_files(blob).container.config["model_type"] == "llama"
    blob.rename(folder / "other.gguf")
    with pytest.raises(GgufError, match="holds several GGUF files"):
        open_files(folder)
    with pytest.raises(UnknownArchitectureError, match="sees pictures"):
        open_files(folder / "mmproj-qwen35.gguf")


PREFIX = "qwen35"
KEYS: list[tuple[dict[str, Any], type[WaymarkError], str]] = [
    ({"general.architecture": ("mamba9", TEXT)}, UnknownArchitectureError, "mamba9.*Waymark runs: "
     "qwen35, "),
    ({"general.architecture": ("clip", TEXT)}, UnknownArchitectureError, "Choose the model's file"),
    ({"attention.head_count": None}, BrokenConfigError, "lacks qwen35.attention.head_count"),
    ({"block_count": (0, U32)}, BrokenConfigError, "block_count isn't a number of layers"),
    ({"block_count": (2**31, U32)}, BrokenConfigError, "block_count isn't a count"),
    ({"block_count": ("4", TEXT)}, BrokenConfigError, "block_count isn't a count"),
    ({"block_count": (5, U32), "attention.recurrent_layers": None},
     MissingTensorError, "blk.1.attn_qkv.weight is in none"),
    ({"attention.value_length": (16, U32)}, BrokenConfigError, "isn't that of the keys"),
    ({"attention.layer_norm_rms_epsilon": (7, U32), "rope.scaling.type": ("yarn", TEXT)},
     BrokenConfigError, "rope_type"),
    ({"rope.freq_base": ("high", TEXT)}, BrokenConfigError, "freq_base isn't a number"),
    ({"attention.recurrent_layers": (True, BOOL)}, BrokenConfigError, "recurrent_layers isn't"),
    ({"ssm.group_count": (3, U32)}, BrokenConfigError, "linear_num_key_heads"),
    ({"ssm.state_size": (8, U32)}, WrongShapeError, "blk.0.attn_qkv.weight should be"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "error", "words"), KEYS)
def test_G3_metadata_that_describes_no_model_is_refused(
    keys: dict[str, Any],
    error: type[WaymarkError],
    words: str,
    converted: ConvertedOf,
    tmp_path: Path,
) -> None:
    named = {key if key.startswith("general.") else f"{PREFIX}.{key}": keys[key] for key in keys}
    path = rewrite(converted("qwen35").file, tmp_path / "model.gguf", keys=named)
    with pytest.raises(error, match=words):
        ModelPlan(open_files(path).container).held(torch.float32)


GEMMA4: list[tuple[dict[str, Any], str, type[WaymarkError], str]] = [
    ({"rope.dimension_count_swa": (8, U32)}, "", BrokenConfigError, "rotates a part of each head"),
    ({"attention.value_length_swa": (8, U32)}, "", BrokenConfigError, "isn't that of the keys"),
    ({"attention.sliding_window_pattern": None}, "", BrokenConfigError, "lacks gemma4.attention"),
    ({"attention.shared_kv_layers": (4, U32)}, "", BrokenConfigError, "num_kv_shared_layers"),
    ({"feed_forward_length": (7, U32)}, "", WrongShapeError, "mlp.gate_proj|ffn_gate"),
    ({}, "rope_freqs.weight", BrokenConfigError, "doesn't rotate the first of 16 pairs"),
    ({}, "per_layer_token_embd.weight", MissingTensorError, "per_layer_token_embd"),
    ({}, "blk.1.layer_output_scale.weight", MissingTensorError, "layer_output_scale"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "without", "error", "words"), GEMMA4)
def test_G3_a_gemma_4_that_makes_no_sense_is_refused(
    keys: dict[str, Any],
    without: str,
    error: type[WaymarkError],
    words: str,
    converted: ConvertedOf,
    tmp_path: Path,
) -> None:
    named = {f"gemma4.{key}": value for key, value in keys.items()}
    file = converted("gemma4").file
    path = rewrite(file, tmp_path / "model.gguf", keys=named, without=[without])
    with pytest.raises(error, match=words):
        ModelPlan(open_files(path).container).held(torch.float32)


@pytest.mark.parametrize(
    "name", ["token_embd.weight", "blk.0.ssm_out.weight", "output_norm.weight"]
)
def test_G3_a_missing_tensor_has_the_files_name(
    name: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    path = rewrite(converted("qwen35").file, tmp_path / "model.gguf", without=[name])
    with pytest.raises(MissingTensorError, match=re.escape(name)):
        ModelPlan(open_files(path).container).held(torch.float32)


def test_G3_numbers_that_make_no_sense_are_refused(converted: ConvertedOf, tmp_path: Path) -> None:
    def growing(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        return as_float32(name, -data if name.endswith("ssm_a") else data)

    path = rewrite(converted("qwen35").file, tmp_path / "model.gguf", growing)
    with pytest.raises(BrokenWeightsError, match="decay"):
        load(path)
