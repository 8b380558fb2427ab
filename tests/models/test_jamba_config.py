"""Jamba's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.errors import BrokenConfigError
from core.models.jamba import JambaConfig, parse_config

# The numbers of ai21labs/AI21-Jamba-1.5-Mini's config.json.
PUBLISHED: dict[str, Any] = {
    "architectures": ["JambaForCausalLM"],
    "attention_dropout": 0.0,
    "attn_layer_offset": 4,
    "attn_layer_period": 8,
    "bos_token_id": 1,
    "eos_token_id": [2, 518],
    "expert_layer_offset": 1,
    "expert_layer_period": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_dt_rank": 256,
    "mamba_expand": 2,
    "mamba_proj_bias": False,
    "max_position_embeddings": 262144,
    "model_type": "jamba",
    "num_attention_heads": 32,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_logits_to_keep": 1,
    "output_router_logits": False,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_mamba_kernels": False,
    "vocab_size": 65536,
}


def test_a_published_config_is_read_as_it_is() -> None:
    config = parse_config(PUBLISHED)
    attention = [layer for layer in range(32) if config.has_attention(layer)]
    assert attention == [4, 12, 20, 28]
    assert [layer for layer in range(32) if config.is_sparse(layer)] == list(range(1, 32, 2))
    sizes = config.mamba_sizes
    assert (sizes.width, sizes.state_dim, sizes.rank, sizes.kernel) == (8192, 16, 256, 4)
    assert (config.expert_sizes.count, config.expert_sizes.routing.k) == (16, 2)
    assert not config.expert_sizes.routing.normalise and config.expert_sizes.shared is None
    assert config.attention_sizes.head_dim == 128


def test_one_expert_is_none() -> None:
    config = parse_config(PUBLISHED | {"num_experts": 1})
    assert not any(map(config.is_sparse, range(32)))


def test_other_spellings_mean_the_same() -> None:
    rest = {key: value for key, value in PUBLISHED.items() if key != "num_experts"}
    assert parse_config(rest | {"num_local_experts": 16}) == parse_config(PUBLISHED)
    assert parse_config(PUBLISHED | {"mamba_dt_rank": "auto"}) == parse_config(PUBLISHED)
    assert parse_config(PUBLISHED | {"mamba_inner_layernorms": True}) == parse_config(PUBLISHED)


def test_what_is_left_out_has_the_value_that_transformers_gives_it() -> None:
    config = parse_config({"model_type": "jamba", "hidden_size": 72, "num_attention_heads": 8})
    assert (config.head_dim, config.mamba_dt_rank, config.num_key_value_heads) == (9, 5, 8)
    assert (config.num_hidden_layers, config.num_experts, config.rms_norm_eps) == (32, 16, 1e-6)
    assert parse_config(PUBLISHED | {"num_key_value_heads": None}).num_key_value_heads == 32


def test_parsing_what_was_parsed_changes_nothing() -> None:
    config = parse_config(PUBLISHED)
    assert JambaConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attn_layer_offset": 8}, "attn_layer_offset"),
        ({"attn_layer_period": 0}, "attn_layer_period"),
        ({"expert_layer_offset": 2}, "expert_layer_offset"),
        ({"num_experts_per_tok": 17}, "num_experts_per_tok"),
        ({"num_experts": 0}, "num_experts"),
        ({"num_experts": 2**16 + 1}, "num_experts"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"mamba_d_conv": 1}, "mamba_d_conv"),
        ({"mamba_dt_rank": "much"}, "mamba_dt_rank"),
        ({"mamba_inner_layernorms": False}, "mamba_inner_layernorms"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(PUBLISHED | change)
