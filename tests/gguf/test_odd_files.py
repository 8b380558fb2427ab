"""Files that no converter of today writes: older ones, those of other programs, hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.api.errors import BrokenConfigError, BrokenWeightsError, WrongShapeError
from core.gguf.library import find_towers
from core.gguf.models.model import GGUFModel
from core.gguf.text import _sampling
from core.gguf.vocabulary import read_vocabulary, tokenizer_json
from tests.gguf.files import Tensor, write

TABLE = Tensor("token_embd.weight", (4, 32))
_COUNTS = {
    "block_count": 1, "embedding_length": 32, "context_length": 64, "feed_forward_length": 32,
    "attention.head_count": 2, "attention.head_count_kv": 1, "ssm.time_step_rank": 2,
    "ssm.inner_size": 32, "ssm.group_count": 1, "ssm.state_size": 16, "ssm.conv_kernel": 4,
    "shortconv.l_cache": 3,
}  # fmt: skip
_CLIP_COUNTS = {
    "vision.projection_dim": 32, "vision.embedding_length": 8, "vision.feed_forward_length": 8,
    "vision.patch_size": 2, "vision.image_size": 8, "vision.block_count": 1,
    "vision.attention.head_count": 2,
}  # fmt: skip


def keys(architecture: str, counts: dict[str, int], **others: tuple[str, Any]) -> dict[str, Any]:
    named = {key: ("u32", value) for key, value in counts.items()} | others
    made = {f"{architecture}.{key}": value for key, value in named.items()}
    return {"general.architecture": ("text", architecture)} | made


def model(path: Path, architecture: str, *tensors: Tensor, **others: tuple[str, Any]) -> Path:
    more = {"rope.dimension_sections": ("[i32]", [1, 1, 1, 0]),
            "attention.layer_norm_rms_epsilon": ("f32", 1e-6)}  # fmt: skip
    return write(path, keys(architecture, _COUNTS, **more, **others), [TABLE, *tensors])


def tower(path: Path, kind: str, *tensors: Tensor) -> Path:
    halves = ("[f32]", [0.5] * 3)
    more = {"projector_type": ("text", kind), "vision.image_mean": halves,
            "vision.image_std": halves}  # fmt: skip
    return write(path, keys("clip", _CLIP_COUNTS, **more), tensors)


@pytest.mark.parametrize(
    ("architecture", "tensors"),
    [("qwen35", {"ssm_conv1d": (4, 0)}), ("qwen3next", {"attn_qkv": (), "attn_output": ()}),
     ("qwen3", {"ffn_gate_exps": (4,), "ffn_up_exps": (4,)}),
     ("granitehybrid", {"attn_qkv": (4,), "attn_output": ()})],
)  # fmt: skip
def test_g3_shapes_that_no_rule_fits_are_refused(
    architecture: str, tensors: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    given = [Tensor(f"blk.0.{name}.weight", shape) for name, shape in tensors.items()]
    with pytest.raises(WrongShapeError, match=f"blk.0.{next(iter(tensors))}.weight can't have"):
        GGUFModel.open(model(tmp_path / "m.gguf", architecture, *given))


@pytest.mark.parametrize("rows", [4, 8, 11])
def test_g3_fused_projections_of_impossible_shares_are_refused(rows: int, tmp_path: Path) -> None:
    given = Tensor("blk.0.attn_qkv.weight", (8, rows)), Tensor("blk.0.attn_output.weight", (8, 8))
    with pytest.raises(WrongShapeError, match="can't be split into queries, keys and values"):
        GGUFModel.open(model(tmp_path / "m.gguf", "qwen3", *given))


@pytest.mark.parametrize(
    ("architecture", "kind", "tensor"),
    [("lfm2", "lfm2", Tensor("v.position_embd.weight", ())),
     ("lfm2", "lfm2", Tensor("mm.1.weight", ())),
     ("lfm2", "lfm2", Tensor("v.patch_embd.weight", ())),
     ("lfm2", "lfm2", Tensor("v.patch_embd.weight", (0, 3))),
     ("qwen35", "qwen3vl_merger", Tensor("v.position_embd.weight", (4,)))],
)  # fmt: skip
def test_g3_towers_with_impossible_shapes_are_refused(
    architecture: str, kind: str, tensor: Tensor, tmp_path: Path
) -> None:
    usual = {name: Tensor(name, (4, 4)) for name in ("v.position_embd.weight", "mm.1.weight")}
    tower(tmp_path / "mmproj.gguf", kind, *(usual | {tensor.name: tensor}).values())
    with pytest.raises(WrongShapeError, match=tensor.name):
        GGUFModel.open(model(tmp_path / "m.gguf", architecture))


def test_a_tower_without_a_shape_where_it_shows_its_age_opens(tmp_path: Path) -> None:
    tensors = Tensor("v.position_embd.weight", (4, 4)), Tensor("v.blk.0.ffn_down.weight", ())
    tower(tmp_path / "mmproj.gguf", "qwen3vl_merger", *tensors)
    assert GGUFModel.open(model(tmp_path / "m.gguf", "qwen35")).processor is not None


def test_older_names_and_head_orders_of_ollamas_qwen(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", "qwen35", Tensor("blk.0.ssm_dt", (2,)))
    recipe = GGUFModel.open(path).recipes["model.language_model.layers.0.linear_attn.dt_bias"]
    assert recipe.name == "blk.0.ssm_dt" and recipe.columns is not None
    reordered = {"ssm.v_head_reordered": ("bool", 0)}
    with pytest.raises(BrokenConfigError, match="another order of heads"):
        GGUFModel.open(model(tmp_path / "m.gguf", "qwen35", **reordered))


@pytest.mark.parametrize(
    ("others", "factor"),
    [({"mm.tokens_per_image": ("u32", 256)}, 8.0), ({}, None),
     ({"mm.tokens_per_image": ("u32", 256), "rope.scaling.type": ("text", "linear"),
       "rope.scaling.factor": ("f32", 4.0)}, 4.0),
     ({"rope.local.freq_base": ("f32", 1e4), "context_length": ("u32", 32768),
       "final_logit_softcapping": ("f32", 30.0)}, None)],
)  # fmt: skip
def test_ollamas_gemma_has_the_settings_of_its_release(
    others: dict[str, Any], factor: float | None, tmp_path: Path
) -> None:
    others = {"context_length": ("u32", 131_072)} | others
    config = GGUFModel.open(model(tmp_path / "m.gguf", "gemma3", **others)).config
    assert config["rope_parameters"]["full_attention"].get("factor") == factor
    assert "factor" not in config["rope_parameters"]["sliding_attention"]
    assert "final_logit_softcapping" not in config and config["head_dim"] == 256


def test_a_model_that_cant_see_opens_beside_a_damaged_tower(tmp_path: Path) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(b"GGUF")
    assert GGUFModel.open(model(tmp_path / "m.gguf", "llama")).processor is None
    with pytest.raises(BrokenWeightsError, match="mmproj"):
        GGUFModel.open(model(tmp_path / "m.gguf", "qwen35"))


@pytest.mark.parametrize("folder", ["MXFP4_MOE", "UD-TQ1_0", "UD-Q4_K_XL", "BF16"])
def test_the_tower_above_a_folder_of_one_precision(folder: str, tmp_path: Path) -> None:
    towers = [tower(tmp_path / "mmproj-F16.gguf", "lfm2")]
    assert find_towers(tmp_path / folder / "One-00001-of-00002.gguf") == towers


def test_sampling_settings_are_as_short_as_those_of_the_release() -> None:
    found = {"general.sampling.temp": float(np.float32(0.6)), "general.sampling.top_k": 20}
    assert _sampling(found) == {"do_sample": True, "temperature": 0.6, "top_k": 20}


@pytest.mark.parametrize(("architecture", "prefix"), [("gemma3", False), ("llama", True)])
def test_a_gemma_without_the_key_puts_no_space_before_texts(
    architecture: str, prefix: bool
) -> None:
    metadata = {
        "general.architecture": architecture, "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "a", "b"],
        "tokenizer.ggml.token_type": np.array([2, 3, 3, 1, 1]),
        "tokenizer.ggml.scores": np.array([0.0, 0, 0, -1, -2]),
    }  # fmt: skip
    made = tokenizer_json(metadata, read_vocabulary(metadata), ())
    kinds = [each["type"] for each in made["normalizer"]["normalizers"]]
    assert ("Prepend" in kinds) == prefix
