"""A head that predicts the token after the next is used whole or not at all, with a word."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.api.errors import MissingTensorError
from core.loading import plan as planning
from core.loading.model import read_model
from core.loading.plan import ModelPlan
from core.weights.plan import plan_weights
from core.weights.published.folder import ModelFolder
from tests.models.quantised_folders import FORMATS, PLAIN, write_twins
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_mtp import LAYER, WEIGHTS, add_head, head_tensors

TINY = Tiny(layers="LF", seed=4, vision=False)
SIZES = Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False)
QUERIES, KEYS = (f"{LAYER}self_attn.{name}_proj" for name in "qk")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    write_folder(path, TINY)
    add_head(path, head_tensors(path, TINY))
    return path


def change(path: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(path / WEIGHTS)
    edit(tensors)
    save_file(tensors, path / WEIGHTS, {"format": "pt"})


def planned(path: Path, dtype: torch.dtype = torch.bfloat16) -> tuple[bool, str]:
    """Return True if there is a head, and the reason if not."""
    plan = ModelPlan(ModelFolder.open(path))
    held = plan.held(dtype, with_mtp=True)
    assert held.has_mtp == any(name.startswith("mtp.") for name in held.tensors)
    assert held.config.endswith(" mtp") == held.has_mtp
    return held.has_mtp, plan.mtp_refused


def test_a_whole_head_is_planned_with_the_model(path: Path) -> None:
    assert planned(path) == planned(path, torch.float32) == (True, "")


def test_it_costs_memory_only_where_something_is_drafted(path: Path) -> None:
    plan = ModelPlan(ModelFolder.open(path))
    alone = plan.held(torch.bfloat16, with_mtp=False)
    assert not plan.held(torch.float32).has_mtp and not alone.has_mtp
    assert alone.num_bytes < plan.held(torch.bfloat16, with_mtp=True).num_bytes


def test_the_model_is_still_built_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[torch.dtype] = []

    def noting(build: Any, dtype: torch.dtype, check: Any) -> Any:
        built.append(dtype)
        return plan_weights(build, dtype, check)

    monkeypatch.setattr(planning, "plan_weights", noting)
    plan = ModelPlan(ModelFolder.open(path))
    for with_mtp in (True, False, None):
        plan.held(torch.bfloat16, with_mtp=with_mtp)
    assert built == [torch.bfloat16]


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (lambda tensors: tensors.pop(f"{KEYS}.weight"), r"not whole.*k_proj\.weight"),
        (lambda tensors: tensors.pop("mtp.norm.weight"), r"not whole.*mtp\.norm\.weight"),
        (lambda tensors: tensors.pop("mtp.fc.weight"), r"not of a kind.*mtp\."),
        (
            lambda tensors: tensors.update({"mtp.fc.weight": torch.zeros(3)}),
            r"not whole.*mtp\.fc\.weight",
        ),
        (
            lambda tensors: tensors.update({"mtp.fc.bias": torch.zeros(32)}),
            r"not of a kind.*mtp\.fc\.bias",
        ),
        # As some spell what they fused.
        (
            lambda tensors: tensors.update({f"{LAYER}self_attn.qkv_proj.weight": torch.zeros(4)}),
            r"not of a kind.*qkv_proj",
        ),
        (
            lambda tensors: tensors.update({"mtp.layers.1.mlp.up_proj.weight": torch.zeros(4)}),
            r"not of a kind.*layers\.1\.",
        ),
    ],
)
def test_a_head_that_is_not_whole_is_refused_with_a_word(
    path: Path, edit: Callable[[dict[str, Tensor]], object], word: str
) -> None:
    change(path, edit)
    has_mtp, refused = planned(path)
    assert not has_mtp
    assert re.search(word, refused), refused


def test_what_is_wrong_with_the_model_is_not_said_of_its_head(path: Path) -> None:
    change(path, lambda tensors: tensors.pop("model.language_model.norm.weight"))
    plan = ModelPlan(ModelFolder.open(path))
    with pytest.raises(MissingTensorError, match=r"language_model\.norm"):
        plan.held(torch.bfloat16)


def test_a_model_without_a_head_has_nothing_to_say(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", TINY)
    assert planned(tmp_path / "model") == (False, "")


@pytest.mark.parametrize("fused", [True, False])
def test_experts_of_a_head_may_be_spelt_both_ways(tmp_path: Path, fused: bool) -> None:
    write_experts(tmp_path / "model", TinyExperts("qwen3_5_moe", TINY, fused=fused))
    add_head(tmp_path / "model", head_tensors(tmp_path / "model", TINY))
    assert planned(tmp_path / "model") == (True, "")


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("title", FORMATS)
def test_a_head_may_be_published_in_another_format_than_the_body(
    tmp_path: Path, title: str, is_packed: bool
) -> None:
    packed, plain = write_twins(tmp_path, FORMATS[title], SIZES)
    head = head_tensors(plain, SIZES)
    for seed, name in enumerate(list(head) if is_packed else ()):
        if head[name].ndim == 2 and not any(each in name for each in PLAIN):
            parts, _ = FORMATS[title].pack(head.pop(name).shape, seed)
            layer = name.removesuffix(".weight")
            head |= {f"{layer}.{part}": tensor for part, tensor in parts.items()}
    change(packed, lambda tensors: tensors.update(head))
    assert planned(packed) == (True, "")
    held = ModelPlan(ModelFolder.open(packed)).held(torch.bfloat16, with_mtp=True)
    # Packed integers, or 4-bit floats, which are blocks.
    blocks = (name for name in held.tensors if held.model.container.blocks(name) is not None)
    assert any(name.startswith("mtp.") for name in (*held.packed, *blocks)) == is_packed
    model = read_model(held, torch.device("cpu"), lambda done, total: None, lambda: None).model
    assert model.has_mtp
