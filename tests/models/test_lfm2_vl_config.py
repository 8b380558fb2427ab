"""LFM2-VL's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.api.errors import BrokenConfigError
from core.models.lfm2_vl import parse_config, published_names
from tests.models.test_lfm2_config import LFM2

# Facts of LFM2-VL-1.6B, and of LFM2-VL-450M where they differ.
LARGER: dict[str, Any] = {
    "model_type": "lfm2_vl",
    "downsample_factor": 2,
    "image_token_id": 396,
    "projector_bias": True,
    "projector_hidden_act": "gelu",
    "projector_hidden_size": 2560,
    "vision_feature_layer": -1,
    "text_config": LFM2,
    "vision_config": {
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "layer_norm_eps": 1e-06,
        "model_type": "siglip2_vision_model",
        "num_attention_heads": 16,
        "num_channels": 3,
        "num_hidden_layers": 26,
        "num_patches": 256,
        "patch_size": 16,
        "vision_use_head": False,
    },
}
SMALLER: dict[str, Any] = {
    "text_config": LFM2 | {"hidden_size": 1024, "num_attention_heads": 16, "block_ff_dim": 6656},
    "vision_config": LARGER["vision_config"]
    | {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
    },
}


def changed(part: str, **values: Any) -> dict[str, Any]:
    """LARGER with some keys of a part set, or of itself."""
    config = copy.deepcopy(LARGER)
    (config[part] if part else config).update(values)
    return config


@pytest.mark.parametrize("values", [LARGER, LARGER | SMALLER], ids=["1.6B", "450M"])
def test_the_published_spelling(values: dict[str, Any]) -> None:
    config = parse_config(values)
    assert config.text_config.head_dim == 64 and config.tied
    assert config.projector_use_layernorm and config.downsample_factor == 2
    vision = values["vision_config"]
    assert config.vision_config is not None
    assert config.vision_config.num_hidden_layers == vision["num_hidden_layers"]


def test_a_head_of_its_own_is_said_on_top() -> None:
    assert not parse_config(changed("", tie_word_embeddings=False)).tied
    assert not parse_config(changed("", tie_embedding=False)).tied
    assert parse_config(changed("text_config", tie_word_embeddings=False)).tied


def test_a_folder_without_vision() -> None:
    assert parse_config(changed("", vision_config=None)).vision_config is None


def test_towers_have_two_names() -> None:
    config = parse_config(LARGER)
    name, older = "model.vision_tower.", "model.vision_tower.vision_model."
    found = {f"{older}post_layernorm.weight"}
    assert published_names(config, found)(f"{name}encoder.a") == f"{older}encoder.a"
    assert published_names(config, ())(f"{name}encoder.a") == f"{name}encoder.a"
    text = "model.language_model.layers.3."
    assert published_names(config, found)(f"{text}self_attn.o_proj.weight") == (
        f"{text}self_attn.out_proj.weight"
    )


@pytest.mark.parametrize(
    ("part", "values", "named"),
    [
        ("", {"projector_hidden_act": "relu"}, "projector_hidden_act"),
        ("", {"vision_feature_layer": -2}, "vision_feature_layer"),
        ("", {"downsample_factor": 0}, "downsample_factor"),
        ("", {"text_config": None}, "text_config"),
        ("text_config", {"num_key_value_heads": 5}, "num_key_value_heads"),
        ("vision_config", {"num_patches": 255}, "num_patches"),
        ("vision_config", {"num_attention_heads": 7}, "hidden_size"),
        ("vision_config", {"model_type": "siglip_vision_model"}, "model_type"),
        ("vision_config", {"num_channels": 1}, "num_channels"),
    ],
)
def test_what_does_not_fit_is_named(part: str, values: dict[str, Any], named: str) -> None:
    with pytest.raises(BrokenConfigError, match=named):
        parse_config(changed(part, **values))
