"""Falcon-H1's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.models.falcon_h1 import FalconH1Config, parse_config

# The numbers of tiiuae/Falcon-H1-0.5B-Instruct's config.json.
PUBLISHED: dict[str, Any] = {
    "architectures": ["FalconH1ForCausalLM"],
    "attention_bias": False,
    "attention_in_multiplier": 1.0,
    "attention_out_multiplier": 0.9375,
    "attn_layer_indices": None,
    "embedding_multiplier": 5.656854249492381,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "key_multiplier": 0.39062499999999994,
    "lm_head_multiplier": 0.0390625,
    "mamba_chunk_size": 128,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_ssm": 1536,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 24,
    "mamba_norm_before_gate": False,
    "mamba_proj_bias": False,
    "mamba_rms_norm": False,
    "mamba_use_mlp": True,
    "max_position_embeddings": 16384,
    "mlp_bias": False,
    "mlp_multipliers": [0.8838834764831844, 0.5859375],
    "model_type": "falcon_h1",
    "num_attention_heads": 8,
    "num_hidden_layers": 36,
    "num_key_value_heads": 2,
    "projectors_bias": False,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 100000000000.0,
    "ssm_in_multiplier": 1.25,
    "ssm_multipliers": [
        0.3535533905932738,
        0.25,
        0.3535533905932738,
        0.5,
        0.3535533905932738,
    ],
    "ssm_out_multiplier": 0.23570226039551587,
    "tie_word_embeddings": False,
    "vocab_size": 32784,
}


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in PUBLISHED.items() if key not in keys}


def test_a_published_config_is_read_as_it_is() -> None:
    config = parse_config(PUBLISHED)
    assert (config.head_dim, config.mamba_d_ssm, config.tie_word_embeddings) == (64, 1536, False)
    assert config.rope_parameters.rope_theta == 1e11
    assert config.time_step_limit == (0.0, math.inf)
    assert config.mamba_sizes_in(1024).shape.widths == [1536, 128, 128]
    form = config.mamba_form
    assert (form.norm_groups, form.gate_first, form.conv_bias) == (0, True, True)
    assert form.multipliers == tuple(PUBLISHED["ssm_multipliers"])
    # In float32 the slowest pair still turns.
    frequencies = config.rope_parameters.frequencies(config.head_dim, torch.device("cpu"))
    assert frequencies.dtype == torch.float32 and 0 < float(frequencies[-1]) < 1e-10


def test_what_is_left_out_has_the_value_that_transformers_gives_it() -> None:
    few = {
        key: PUBLISHED[key]
        for key in ("model_type", "vocab_size", "hidden_size", "intermediate_size")
    }
    few |= {"num_hidden_layers": 2, "num_attention_heads": 16}
    config = parse_config(few)
    assert (config.num_key_value_heads, config.head_dim) == (8, 64)
    assert (config.mamba_d_ssm, config.mamba_n_heads, config.mamba_d_head) == (1024, 128, 8)
    assert (config.mamba_d_state, config.mamba_n_groups, config.mamba_d_conv) == (256, 1, 4)
    assert config.mamba_form.norm_groups == 0 and not config.mamba_form.gate_first
    assert config.mlp_multipliers == (1.0, 1.0) and config.max_position_embeddings == 8192
    assert config.rope_parameters.rope_theta == 1e4


def test_null_is_not_absent_where_transformers_sees_a_difference() -> None:
    change = {"mamba_d_ssm": None, "mamba_d_head": "auto", "mamba_n_heads": 32}
    expanded = parse_config(PUBLISHED | change)
    assert (expanded.mamba_d_ssm, expanded.mamba_d_head) == (2048, 64)
    assert parse_config(PUBLISHED | {"num_key_value_heads": None}).num_key_value_heads == 8


@pytest.mark.parametrize(
    "written",
    [[0.0, math.inf], [0.0, {"__float__": "Infinity"}], (0.0, math.inf), None],
    ids=str,
)
def test_infinity_has_several_spellings(written: Any) -> None:
    config = parse_config(PUBLISHED | {"time_step_limit": written})
    assert config.time_step_limit == (0.0, math.inf)


def test_both_spellings_of_rope_are_read() -> None:
    newer = {"rope_parameters": {"rope_theta": 1e11, "rope_type": "default"}}
    assert parse_config(without("rope_theta") | newer) == parse_config(PUBLISHED)


def test_parsing_what_was_parsed_changes_nothing() -> None:
    config = parse_config(PUBLISHED)
    assert FalconH1Config.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"mamba_d_head": 32}, "mamba_d_head"),
        ({"mamba_d_head": "auto", "mamba_n_heads": 7}, "mamba_n_heads"),
        ({"mamba_n_groups": 5}, "mamba_n_groups"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"head_dim": 15}, "head_dim"),
        ({"key_multiplier": 0.0}, "key_multiplier"),
        ({"attention_out_multiplier": 0}, "attention_out_multiplier"),
        ({"ssm_multipliers": [1.0, 2.0]}, "ssm_multipliers"),
        ({"mlp_multipliers": "none"}, "mlp_multipliers"),
        ({"lm_head_multiplier": math.inf}, "lm_head_multiplier"),
        ({"ssm_multipliers": [1e300] * 5}, "ssm_multipliers"),
        ({"rms_norm_eps": 1e300}, "rms_norm_eps"),
        ({"time_step_limit": [1.0, 0.5]}, "time_step_limit"),
        ({"time_step_limit": [0.0]}, "time_step_limit"),
        ({"mamba_d_conv": 1}, "mamba_d_conv"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(PUBLISHED | change)


def test_a_limit_beyond_float32_is_none() -> None:
    config = parse_config(PUBLISHED | {"time_step_limit": [0.0, 1e300]})
    assert config.time_step_limit == (0.0, math.inf)
