"""Qwen3-VL's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.api.errors import BrokenConfigError
from core.models.qwen3_vl import parse_config

# Facts of Qwen3-VL-4B-Instruct.
FOUR_B: dict[str, Any] = {
    "model_type": "qwen3_vl",
    "image_token_id": 151655,
    "tie_word_embeddings": True,
    "text_config": {
        "attention_bias": False,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "max_position_embeddings": 262144,
        "model_type": "qwen3_vl_text",
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "mrope_interleaved": True,
            "mrope_section": [24, 20, 20],
            "rope_type": "default",
        },
        "rope_theta": 5000000,
        "tie_word_embeddings": True,
        "vocab_size": 151936,
    },
    "vision_config": {
        "deepstack_visual_indexes": [5, 11, 17],
        "depth": 24,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 1024,
        "in_channels": 3,
        "intermediate_size": 4096,
        "model_type": "qwen3_vl",
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 2560,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
# The same of Qwen3-VL-8B and -32B, where they differ.
EIGHT_B: dict[str, Any] = {
    "tie_word_embeddings": False,
    "text_config": {"hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False},
    "vision_config": {
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "out_hidden_size": 4096,
    },
}
THIRTY_TWO_B: dict[str, Any] = {
    "tie_word_embeddings": False,
    "text_config": {
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "tie_word_embeddings": False,
    },
    "vision_config": EIGHT_B["vision_config"] | {"out_hidden_size": 5120},
}


def changed(part: str, **values: Any) -> dict[str, Any]:
    """FOUR_B with some keys of a part set."""
    config = copy.deepcopy(FOUR_B)
    config[part] |= values
    return config


def test_the_published_spelling() -> None:
    config = parse_config(FOUR_B)
    text, rope = config.text_config, config.text_config.rope_parameters
    assert (text.head_dim, text.num_key_value_heads) == (128, 8)
    assert (rope.rope_theta, rope.mrope_section) == (5e6, (24, 20, 20))
    assert config.tied and config.image_layers == 3
    assert config.vision_config is not None
    assert config.vision_config.deepstack_visual_indexes == (5, 11, 17)


@pytest.mark.parametrize("other", [EIGHT_B, THIRTY_TWO_B], ids=["8B", "32B"])
def test_larger_ones(other: dict[str, Any]) -> None:
    parts = {key: FOUR_B[key] | other[key] for key in ("text_config", "vision_config")}
    config = parse_config(FOUR_B | other | parts)
    assert not config.tied and config.image_layers == 3
    assert config.text_config.num_hidden_layers == parts["text_config"]["num_hidden_layers"]


def test_newer_files_gather_the_rope_keys() -> None:
    values = changed("text_config", rope_scaling=None, rope_theta=None)
    assert parse_config(values).text_config.rope_parameters.rope_theta == 500_000
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [8, 4, 4]}
    values["text_config"]["rope_parameters"] = rope
    assert parse_config(values).text_config.rope_parameters.mrope_section == (8, 4, 4)


def test_a_folder_without_vision() -> None:
    config = parse_config(FOUR_B | {"vision_config": None})
    assert config.vision_config is None and config.image_layers == 0


@pytest.mark.parametrize(
    ("part", "values", "named"),
    [
        ("text_config", {"rope_scaling": {"rope_type": "yarn", "factor": 3.0}}, "yarn"),
        ("text_config", {"rope_scaling": {"mrope_interleaved": False}}, "mrope_interleaved"),
        ("text_config", {"rope_scaling": {"mrope_section": [24, 20]}}, "mrope_section"),
        ("text_config", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("text_config", {"hidden_size": 2048}, "out_hidden_size"),
        ("text_config", {"num_hidden_layers": 2}, "deepstack_visual_indexes"),
        ("vision_config", {"deepstack_visual_indexes": [5, 5]}, "deepstack_visual_indexes"),
        ("vision_config", {"deepstack_visual_indexes": [11, 5]}, "deepstack_visual_indexes"),
        ("vision_config", {"deepstack_visual_indexes": [24]}, "deepstack_visual_indexes"),
        ("vision_config", {"deepstack_visual_indexes": [-1]}, "deepstack_visual_indexes"),
        ("vision_config", {"deepstack_visual_indexes": 5}, "deepstack_visual_indexes"),
        ("vision_config", {"num_heads": 5}, "hidden_size"),
    ],
)
def test_what_does_not_fit_is_named(part: str, values: dict[str, Any], named: str) -> None:
    with pytest.raises(BrokenConfigError, match=named):
        parse_config(changed(part, **values))


@pytest.mark.parametrize("text", [None, 3, "text"])
def test_a_config_without_its_text_part_is_named(text: Any) -> None:
    with pytest.raises(BrokenConfigError, match="text_config"):
        parse_config(FOUR_B | {"text_config": text})
