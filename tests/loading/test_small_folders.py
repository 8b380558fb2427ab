"""Small folders take little memory, whatever they say: looked at in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from core.api.errors import BrokenConfigError, BrokenWeightsError
from core.api.model_info import HEADROOM_BYTES
from core.layers import runs
from core.layers.feed_forward import SwiGLU
from core.loading.plan import MATRIX_BYTES, ModelPlan
from core.weights import safetensors_file
from core.weights.published.folder import ModelFolder
from core.weights.spec import Shape
from tests.layers.sources import random_weights
from tests.weights.files import write_sparse

# Looks at folder argv[1]; prints by how many MiB the process's peak grew, and what was raised.
LOOK = """
import resource
import sys
from pathlib import Path

import torch

from core.api.errors import WaymarkError
from core.loading.plan import ModelPlan
from core.weights.published.folder import ModelFolder
from core.api.model_info import HEADROOM_BYTES

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before, said = peak(), ""
try:
    ModelPlan(ModelFolder.open(Path(sys.argv[1]))).held(torch.bfloat16).num_bytes
except WaymarkError as error:
    said = type(error).__name__
print(peak() - before, said)
"""
CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 8,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "vocab_size": 16,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "rope_theta": 10_000.0,
}


def write_folder(
    folder: Path, layers: int, more: Mapping[str, Shape], **settings: object
) -> ModelFolder:
    """A folder of Qwen3's kind, `more` tensors beside attention, norms and embeddings in each
    layer."""
    shapes: dict[str, Shape] = {"embed_tokens.weight": (16, 8), "norm.weight": (8,)}
    for layer in range(layers):
        scope = f"layers.{layer}."
        shapes |= {f"{scope}{name}_layernorm.weight": (8,) for name in ("input", "post_attention")}
        shapes |= {f"{scope}self_attn.{name}_proj.weight": (8, 8) for name in "qkvo"}
        shapes |= {f"{scope}self_attn.{name}_norm.weight": (8,) for name in "qk"}
        shapes |= {f"{scope}mlp.{name}": shape for name, shape in more.items()}
    tensors = {f"model.{name}": ("BF16", shape) for name, shape in shapes.items()}
    write_sparse(folder / "model.safetensors", tensors)
    config = CONFIG | {"num_hidden_layers": layers} | settings
    (folder / "config.json").write_text(json.dumps(config))
    return ModelFolder.open(folder)


def write_experts(folder: Path, layers: int, count: int) -> ModelFolder:
    more = {
        "gate.weight": (count, 8),
        "experts.gate_up_proj": (count, 2, 8),
        "experts.down_proj": (count, 8, 1),
    }
    return write_folder(
        folder,
        layers,
        more,
        model_type="qwen3_moe",
        num_experts=count,
        num_experts_per_tok=2,
        moe_intermediate_size=1,
    )


def write_mlp(folder: Path, width: int) -> ModelFolder:
    more = {
        "gate_proj.weight": (width, 8),
        "up_proj.weight": (width, 8),
        "down_proj.weight": (8, width),
    }
    return write_folder(folder, 1, more, intermediate_size=width)


def look(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    grown, _, said = done.stdout.strip("\n").partition(" ")
    return int(grown), said


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in KiB there")


@needs_linux
def test_a_list_of_a_million_wrong_items_is_one_fault(tmp_path: Path) -> None:
    """All of them were listed before five were shown: 2,056 MiB."""
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    config = CONFIG | {"layer_types": [0] * 1_300_000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    grown, said = look(tmp_path)
    assert said == "BrokenConfigError"
    assert grown < 200


def test_faults_beyond_the_first_are_counted(tmp_path: Path) -> None:
    with pytest.raises(BrokenConfigError, match="and 95 more"):
        ModelPlan(write_folder(tmp_path, 1, {}, layer_types=[0] * 100))


@needs_linux
def test_links_to_one_file_are_read_once(tmp_path: Path) -> None:
    names = {f"tensor.{each:06d}.weight": ("U8", (0,)) for each in range(100_000)}
    write_sparse(tmp_path / "whole.safetensors", names)
    links = [f"link{each:02d}.safetensors" for each in range(40)]
    for link in links:
        (tmp_path / link).symlink_to("whole.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    index = {"weight_map": {f"tensor.{each:06d}.weight": link for each, link in enumerate(links)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    grown, said = look(tmp_path)
    assert said == BrokenWeightsError.__name__
    assert grown < 250


@pytest.mark.parametrize("limit", ["FOLDER_HEADER_BYTES", "FOLDER_TENSORS"])
def test_one_budget_holds_for_all_headers_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    shards = {f"{name}.safetensors": f"tensor.{name}" for name in "abc"}
    for shard, name in shards.items():
        write_sparse(tmp_path / shard, {name: ("U8", (1,))})
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    index = {"weight_map": {name: shard for shard, name in shards.items()}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert len(ModelFolder.open(tmp_path).files) == 3
    length = (tmp_path / "a.safetensors").stat().st_size - 9
    monkeypatch.setattr(safetensors_file, limit, 3 * length - 1 if "BYTES" in limit else 3)
    with pytest.raises(BrokenWeightsError, match=r"up to c\.safetensors describe more"):
        ModelFolder.open(tmp_path)


@needs_linux
def test_experts_of_a_stack_are_described_once(tmp_path: Path) -> None:
    """A view for each took 180 MiB before anything was read."""
    write_experts(tmp_path, layers=32, count=4_096)
    grown, said = look(tmp_path)
    assert said == ""
    assert grown < 60


def test_many_small_matrices_are_counted_in_the_memory_that_a_model_needs(tmp_path: Path) -> None:
    folder = write_experts(tmp_path, layers=8, count=4_096)
    needed = ModelPlan(folder).held(torch.bfloat16).num_bytes
    assert needed > 2 * 8 * 4_096 * MATRIX_BYTES - HEADROOM_BYTES > 2**28


def test_more_experts_than_any_model_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenConfigError, match="num_experts"):
        ModelPlan(write_experts(tmp_path, layers=1, count=65_536))


def test_what_a_wide_block_computes_is_counted_before_a_model_is_loaded(tmp_path: Path) -> None:
    width = 2**19
    needed = ModelPlan(write_mlp(tmp_path, width)).held(torch.bfloat16).num_bytes
    assert needed > 3 * width * 512 * 2 - HEADROOM_BYTES
    usual = ModelPlan(write_mlp(tmp_path, 2**14)).held(torch.bfloat16).num_bytes
    assert usual < 2**21


def test_rows_of_a_block_are_cut_by_bytes_and_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MLP of width 524,288 took 2 GB for 512 rows."""
    seen: list[int] = []

    layer = SwiGLU(random_weights(), 6, 10)
    hidden, block = torch.randn(9, 6), layer._block
    expected = layer(hidden)

    def noted(rows: torch.Tensor, is_step: bool) -> torch.Tensor:
        seen.append(len(rows))
        return block(rows, is_step)

    monkeypatch.setattr(layer, "_block", noted)
    monkeypatch.setattr(runs, "BYTES_PER_BLOCK", 4 * 3 * 10 * 4 + 100)
    torch.testing.assert_close(layer(hidden), expected)
    assert seen == [4, 4, 1]
    monkeypatch.setattr(runs, "BYTES_PER_BLOCK", 1)
    torch.testing.assert_close(layer(hidden), expected)
    assert seen[3:] == [1] * 9
    monkeypatch.setattr(runs, "BYTES_PER_BLOCK", 2**20)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", 5)
    torch.testing.assert_close(layer(hidden), expected)
    assert seen[12:] == [5, 4]


@pytest.mark.parametrize("width", [8_192, 17_408, 53_248])
def test_blocks_of_published_widths_have_the_rows_they_ever_had(width: int) -> None:
    assert runs.BYTES_PER_BLOCK // (3 * width * 2) >= runs.ROWS_PER_BLOCK
