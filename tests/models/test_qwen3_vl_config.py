"""Qwen3-VL's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.models import qwen3_vl_moe
from core.models.qwen3_vl import parse_config
from core.weights.plan import Weights, plan_weights

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

# Qwen3-VL-30B-A3B-Instruct.
THIRTY_B_A3B: dict[str, Any] = {
    "model_type": "qwen3_vl_moe",
    "tie_word_embeddings": False,
    "text_config": {
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "max_position_embeddings": 262144,
        "mlp_only_layers": [],
        "model_type": "qwen3_vl_moe_text",
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06,
        "rope_scaling": FOUR_B["text_config"]["rope_scaling"],
        "rope_theta": 5000000,
        "vocab_size": 151936,
    },
    "vision_config": FOUR_B["vision_config"]
    | EIGHT_B["vision_config"]
    | {"out_hidden_size": 2048, "model_type": "qwen3_vl_moe"},
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


def test_one_with_experts_whose_matrices_have_inputs_first() -> None:
    config = qwen3_vl_moe.parse_config(THIRTY_B_A3B)
    text = config.text_config
    assert (text.num_experts, text.num_experts_per_tok, text.norm_topk_prob) == (128, 8, True)
    shapes = {"gate_up_proj": (128, 2048, 1536), "down_proj": (128, 768, 2048)}

    def build(weights: Weights) -> None:
        weights.stored = lambda name: shapes.get(name.rpartition(".")[2])
        qwen3_vl_moe.Qwen3VLMoeModel(config, weights, torch.device("cpu"))

    plan = plan_weights(build, torch.bfloat16)
    for part, shape in shapes.items():
        spec = plan[f"model.language_model.layers.47.mlp.experts.{part}"]
        assert spec.transposed and spec.stored_shape == shape
    assert sum(spec.num_elements for spec in plan.values()) == pytest.approx(31.07e9, rel=1e-3)


def test_what_one_with_experts_leaves_out_has_the_value_that_transformers_gives_it() -> None:
    needed = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
    text = {key: THIRTY_B_A3B["text_config"][key] for key in needed}
    config = qwen3_vl_moe.parse_config(
        {"text_config": text | {"norm_topk_prob": False}}
    ).text_config
    assert (config.num_key_value_heads, config.head_dim) == (16, 64)
    assert (config.num_experts, config.num_experts_per_tok) == (60, 4)
    assert (config.moe_intermediate_size, config.intermediate_size) == (1408, 5632)
    assert config.max_position_embeddings == 128_000 and config.norm_topk_prob


def test_more_experts_of_a_token_than_there_are_is_named() -> None:
    text = THIRTY_B_A3B["text_config"] | {"num_experts": 4}
    with pytest.raises(BrokenConfigError, match="num_experts_per_tok"):
        qwen3_vl_moe.parse_config(THIRTY_B_A3B | {"text_config": text})


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
