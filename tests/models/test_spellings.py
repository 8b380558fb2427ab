"""Folders of Gemma 3 and Nemotron-H whose tensors have other published names, or are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.api.errors import MissingTensorError, NoVisionError
from tests.oracle.runs import load, our_logits, text
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3
from tests.oracle.tiny_text import TinyNemotron, write_nemotron


def rename(path: Path, spelling: dict[str, str]) -> None:
    """Put other words before the names in a folder's weights."""
    tensors = {}
    for name, tensor in load_file(path / "model.safetensors").items():
        prefix = max((each for each in spelling if name.startswith(each)), key=len)
        tensors[spelling[prefix] + name.removeprefix(prefix)] = tensor
    save_file(tensors, path / "model.safetensors")


SPELLINGS = {
    "hub": {
        "language_model.model.": "language_model.model.",
        "vision_tower.": "vision_tower.vision_model.",
        "multi_modal_projector.": "multi_modal_projector.",
        "lm_head.": "language_model.lm_head.",
        "language_model.lm_head.": "language_model.lm_head.",
    },
    "newer": {
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
        "lm_head.": "lm_head.",
        "language_model.lm_head.": "lm_head.",
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_published_spelling_of_the_weights_loads(
    tmp_path: Path, spelling: dict[str, str]
) -> None:
    write_gemma3(tmp_path, TinyGemma3(tied=False, vision_depth=1))
    expected = load(tmp_path)
    rename(tmp_path, spelling)
    found = load(tmp_path)
    ids = torch.arange(5)
    assert torch.equal(found.logits(found.embed(ids)), expected.logits(expected.embed(ids)))
    assert found.num_parameters == expected.num_parameters


def test_a_folder_without_a_tower_reads_text(tmp_path: Path) -> None:
    write_gemma3(tmp_path, TinyGemma3(vision_depth=1))
    config = json.loads((tmp_path / "config.json").read_text())
    del config["vision_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load(tmp_path)
    assert not model.has_vision
    with pytest.raises(NoVisionError):
        model.encode_image(torch.zeros(1), 1, 1, lambda: None)


def test_a_missing_tensor_is_named_as_the_folder_would(tmp_path: Path) -> None:
    write_gemma3(tmp_path, TinyGemma3(vision_depth=1))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["vision_tower.encoder.layers.0.mlp.fc1.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(MissingTensorError, match=r"vision_tower\.encoder\.layers\.0\.mlp\.fc1"):
        load(tmp_path)


def test_both_spellings_of_a_nemotron_h_are_read(tmp_path: Path) -> None:
    """Releases say backbone where transformers says model."""
    write_nemotron(tmp_path, TinyNemotron("M*"))
    expected = our_logits(load(tmp_path), [text(20)])
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    spelling = {"model.": "backbone.", "backbone.": "model."}
    before = "model." if any(name.startswith("model.") for name in tensors) else "backbone."
    after = {name.replace(before, spelling[before], 1): each for name, each in tensors.items()}
    assert after.keys() != tensors.keys()
    save_file(after, path, metadata={"format": "pt"})
    assert our_logits(load(tmp_path), [text(20)]).equal(expected)
