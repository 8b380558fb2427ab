"""Gemma 3's config.json and weight names as published, and what is refused by its key's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.api.errors import BrokenConfigError, MissingTensorError, NoVisionError
from core.layers.rope import inverse_frequencies
from core.models.gemma3 import parse_config
from core.weights.folder import ModelFolder
from tests.loads import load_model
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3

CPU = torch.device("cpu")
# As sparse as the files of the released 4B model.
SPARSE: dict[str, Any] = {
    "model_type": "gemma3",
    "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "vision_use_head": False,
    },
}


def changed(part: str, **values: Any) -> dict[str, Any]:
    """SPARSE with keys set in one part, or on top for an empty name."""
    if not part:
        return SPARSE | values
    return SPARSE | {part: SPARSE[part] | values}


def test_what_a_sparse_file_leaves_out_has_its_published_value() -> None:
    config = parse_config(SPARSE)
    text = config.text_config
    assert (text.vocab_size, text.num_attention_heads, text.head_dim) == (262_208, 8, 256)
    assert text.types[:6] == ("sliding_attention",) * 5 + ("full_attention",)
    assert text.types.count("full_attention") == 5
    assert config.tied and config.vision_config is not None
    assert config.vision_config.side == 64


def test_older_files_scale_the_full_layers_rope_alone() -> None:
    text = parse_config(SPARSE).text_config
    plain = inverse_frequencies(1e6, 256, CPU)
    assert torch.equal(text.full_rope.frequencies(256, CPU), plain / 8)
    sliding = text.sliding_rope.frequencies(256, CPU)
    assert torch.equal(sliding, inverse_frequencies(1e4, 256, CPU))
    other = changed("text_config", rope_theta=5e5, rope_local_base_freq=2e4, rope_scaling=None)
    text = parse_config(other).text_config
    assert (text.full_rope.rope_theta, text.sliding_rope.rope_theta) == (5e5, 2e4)


def test_a_text_only_file_has_its_keys_on_top() -> None:
    values = SPARSE["text_config"] | {"sliding_window_pattern": 2, "rope_scaling": None}
    config = parse_config(values)
    assert config.vision_config is None and config.tied
    assert config.text_config.types[:2] == ("sliding_attention", "full_attention")
    assert not parse_config(values | {"tie_word_embeddings": False}).tied


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (changed("text_config", final_logit_softcapping=30.0), "final_logit_softcapping"),
        (changed("text_config", attn_logit_softcapping=50.0), "attn_logit_softcapping"),
        (changed("text_config", use_bidirectional_attention=True), "use_bidirectional"),
        (changed("text_config", hidden_activation="silu"), "hidden_activation"),
        (changed("text_config", rope_scaling={"rope_type": "yarn"}), "yarn"),
        (changed("text_config", rope_parameters="x"), "rope_parameters"),
        (changed("text_config", rope_parameters={"full_attention": 3}), "rope_parameters"),
        (changed("text_config", layer_types=["full_attention"]), "layer_types"),
        (changed("text_config", layer_types=["mamba"] * 34), "layer_types"),
        (changed("text_config", num_key_value_heads=3), "num_key_value_heads"),
        (changed("text_config", head_dim=7), "head_dim"),
        (changed("vision_config", model_type="clip_vision_model"), "vision_config.model_type"),
        (changed("vision_config", num_attention_heads=7), "num_attention_heads"),
        (changed("vision_config", image_size=7), "image_size"),
        (changed("vision_config", patch_size=13), "mm_tokens_per_image"),
        (changed("", mm_tokens_per_image=255), "mm_tokens_per_image"),
        (changed("", text_config=None), "text_config"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(values)


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


def load(path: Path) -> Any:
    folder = ModelFolder.open(path)
    return load_model(folder, CPU, torch.float32).model
