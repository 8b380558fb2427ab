"""Loading a folder: refused before anything is allocated, stopped on request, digested once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.api.errors import MissingTensorError, NotEnoughMemoryError, UnknownArchitectureError
from core.api.model_info import HEADROOM_BYTES
from core.loading.model import ReadModel
from core.weights.memory import TRIM_BYTES
from core.weights.published.folder import ModelFolder
from tests.loads import estimate_bytes, load_model
from tests.oracle.checkpoints import Tiny, write_folder

CPU = torch.device("cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_folder(tmp_path, Tiny(layers="LF", vision_depth=1))
    return tmp_path


def load(path: Path, dtype: torch.dtype = torch.float32, **options: Any) -> ReadModel:
    folder = ModelFolder.open(path)
    return load_model(folder, CPU, dtype, **options)


def edit_config(path: Path, **values: Any) -> None:
    config = json.loads((path / "config.json").read_text()) | values
    (path / "config.json").write_text(json.dumps(config))


def edit_weights(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file(tensors, path / "model.safetensors")


NAMES = {
    "embedding": "model.language_model.embed_tokens.weight",
    "recurrent": "model.language_model.layers.0.linear_attn.A_log",
    "attention": "model.language_model.layers.1.self_attn.q_norm.weight",
    "tower": "model.visual.blocks.0.attn.qkv.bias",
    "merger": "model.visual.merger.linear_fc2.weight",
}


def test_a_head_that_should_be_there_is_missed(path: Path) -> None:
    edit_config(path, tie_word_embeddings=False)
    with pytest.raises(MissingTensorError, match=r"lm_head\.weight"):
        load(path)


def test_tensors_nobody_asks_for_are_let_be(path: Path) -> None:
    expected = load(path).model.num_parameters
    extra = {"mtp.fc.weight": torch.zeros(3, dtype=torch.int32)}
    edit_weights(path, lambda tensors: tensors.update(extra))
    assert load(path).model.num_parameters == expected


@pytest.mark.parametrize("model_type", ["phi3", "", None, 3, ["qwen3_5"]])
def test_an_unknown_architecture_lists_the_known(path: Path, model_type: Any) -> None:
    edit_config(path, model_type=model_type)
    with pytest.raises(UnknownArchitectureError, match=r"Waymark runs: qwen3_5, .*llama"):
        load(path)


def test_the_estimate_is_what_the_parameters_take(path: Path) -> None:
    folder = ModelFolder.open(path)
    parameters = load(path).model.num_parameters
    # Small matrices are freed together after they are packed, so they are there twice.
    assert 4 * parameters < TRIM_BYTES
    assert estimate_bytes(folder, torch.float32) == 2 * 4 * parameters
    # A few numbers per layer stay in float32.
    assert 2 * 2 * parameters < estimate_bytes(folder, torch.bfloat16) < 2 * 2.1 * parameters


def test_too_little_memory_is_told_before_a_byte_is_read(path: Path) -> None:
    folder = ModelFolder.open(path)
    needed = estimate_bytes(folder, torch.float32) + HEADROOM_BYTES
    load(path, available=lambda device: needed)
    read: list[int] = []
    words = rf"needs {needed / 1e9:.1f} GB of memory, {(needed - 1) / 1e9:.1f} GB is free"
    with pytest.raises(NotEnoughMemoryError, match=words):
        load_model(
            folder,
            CPU,
            torch.float32,
            lambda done, total: read.append(done),
            lambda: None,
            available=lambda device: needed - 1,
        )
    assert read == []


def test_the_digest_follows_the_weights_and_nothing_else(path: Path) -> None:
    first = load(path).weights_digest
    content = (path / "model.safetensors").read_bytes()
    assert first == hashlib.sha256(hashlib.sha256(content).digest()).hexdigest()
    assert load(path, torch.bfloat16).weights_digest == first
    edit_weights(path, lambda tensors: tensors[NAMES["embedding"]].add_(1))
    assert load(path).weights_digest != first


def test_the_description_follows_what_the_config_means(path: Path) -> None:
    """Keys and values of another config are other numbers, though the weights are the same."""
    first = load(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "transformers_version": "0"}))
    assert load(path).config == first.config
    text = config.get("text_config", config)
    text["rms_norm_eps"] = 0.25
    (path / "config.json").write_text(json.dumps(config))
    changed = load(path)
    assert changed.weights_digest == first.weights_digest and changed.config != first.config
