"""LFM2's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.errors import BrokenConfigError
from core.models.lfm2 import parse_config, published_name

# Facts of LFM2-1.2B, in the spelling of its first release.
LFM2: dict[str, Any] = {
    "model_type": "lfm2",
    "block_auto_adjust_ff_dim": True,
    "block_dim": 2048,
    "block_ff_dim": 12288,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256,
    "conv_L_cache": 3,
    "conv_bias": False,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "hidden_size": 2048,
    "max_position_embeddings": 128000,
    "norm_eps": 1e-05,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rope_theta": 1000000.0,
    "vocab_size": 65536,
}
# What newer files have in place of some of these.
NEWER = {
    "block_ff_dim": None,
    "intermediate_size": 12288,
    "full_attn_idxs": None,
    "layer_types": [
        "full_attention" if index in {2, 5, 8, 10, 12, 14} else "conv" for index in range(16)
    ],
    "rope_theta": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
}


@pytest.mark.parametrize("values", [LFM2, LFM2 | NEWER], ids=["first", "newer"])
def test_both_spellings(values: dict[str, Any]) -> None:
    config = parse_config(values)
    assert (config.head_dim, config.mlp_width) == (64, 8192)
    assert config.layer_types.count("full_attention") == 6
    assert config.layer_types[2] == config.layer_types[14] == "full_attention"
    assert config.rope_parameters.rope_theta == 1e6
    assert config.tie_word_embeddings


@pytest.mark.parametrize(
    ("change", "width"),
    [
        ({"block_ff_dim": 6656}, 4608),  # of LFM2-350M
        ({"block_ff_dim": 10240}, 6912),  # of LFM2-700M
        ({"block_ff_dim": 10752}, 7168),  # of LFM2-2.6B
        ({"block_auto_adjust_ff_dim": False}, 12288),
        ({"block_ffn_dim_multiplier": 1.3}, 10752),
    ],
)
def test_the_width_of_the_mlp_is_what_the_files_have(change: dict[str, Any], width: int) -> None:
    assert parse_config(LFM2 | change).mlp_width == width


def test_a_head_of_its_own_is_said_in_either_spelling() -> None:
    assert not parse_config(LFM2 | {"tie_embedding": False}).tie_word_embeddings
    assert not parse_config(LFM2 | {"tie_word_embeddings": False}).tie_word_embeddings


def test_names_of_shared_layers_become_published_ones() -> None:
    names = {
        "model.layers.2.self_attn.o_proj.weight": "model.layers.2.self_attn.out_proj.weight",
        "model.layers.2.self_attn.k_norm.weight": "model.layers.2.self_attn.k_layernorm.weight",
        "model.layers.11.feed_forward.up_proj.weight": "model.layers.11.feed_forward.w3.weight",
        "model.layers.1.conv.out_proj.weight": "model.layers.1.conv.out_proj.weight",
        "model.embedding_norm.weight": "model.embedding_norm.weight",
    }
    assert {name: published_name(name) for name in names} == names


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"num_hidden_layers": 12} | NEWER, "layer_types"),
        ({"layer_types": ["mamba"] * 16}, "layer_types"),
        ({"layer_types": "conv"}, "layer_types"),
        ({"full_attn_idxs": 2}, "full_attn_idxs"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_hidden_layers": "16"}, "num_hidden_layers"),
        ({"conv_L_cache": 1}, "conv_L_cache"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"head_dim": 63}, "head_dim"),
        ({"block_ffn_dim_multiplier": -1.0}, "block_ffn_dim_multiplier"),
        ({"block_ffn_dim_multiplier": 1e308}, "block_ffn_dim_multiplier"),
        ({"block_ffn_dim_multiplier": 1e-9}, "block_ffn_dim_multiplier"),
        ({"rope_parameters": {"rope_type": "\ud800"}}, "not supported"),
        ({"block_ff_dim": "many"}, "intermediate_size"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "yarn"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BrokenConfigError, match=named):
        parse_config(LFM2 | change)
