"""Files that no converter of today writes: older ones, those of other programs, hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.api.errors import WrongShapeError
from core.gguf.models.model import GGUFModel
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
    [("qwen35", {"ssm_conv1d": (4, 0)}), ("qwen3next", {"attn_qkv": (), "attn_gate": ()}),
     ("qwen3", {"ffn_gate_exps": (4,), "ffn_up_exps": (4,)}),
     ("granitehybrid", {"ffn_gate": (), "ffn_up": ()})],
)  # fmt: skip
def test_g3_shapes_that_no_rule_fits_are_refused(
    architecture: str, tensors: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    given = [Tensor(f"blk.0.{name}.weight", shape) for name, shape in tensors.items()]
    with pytest.raises(WrongShapeError, match=f"blk.0.{next(iter(tensors))}.weight can't have"):
        GGUFModel.open(model(tmp_path / "m.gguf", architecture, *given))


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
