"""Granite 4's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.models.granite_hybrid import (
    GraniteHybridConfig,
    GraniteHybridModel,
    parse_config,
    published_names,
)
from core.weights.plan import Weights, plan_weights
from kernels.common.shapes import Routing

_ATTENTION = (10, 13, 17, 27)
# The numbers of ibm-granite/granite-4.0-h-350m's config.json, in the names it was written with.
PUBLISHED: dict[str, Any] = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "attention_bias": False,
    "attention_multiplier": 0.015625,
    "embedding_multiplier": 12,
    "hidden_act": "silu",
    "hidden_size": 768,
    "intermediate_size": 2048,
    "layer_types": ["attention" if index in _ATTENTION else "mamba" for index in range(32)],
    "logits_scaling": 3,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 32,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 48,
    "mamba_proj_bias": False,
    "max_position_embeddings": 32768,
    "model_type": "granitemoehybrid",
    "num_attention_heads": 12,
    "num_experts_per_tok": 0,
    "num_hidden_layers": 32,
    "num_key_value_heads": 4,
    "num_local_experts": 0,
    "position_embedding_type": "nope",
    "residual_multiplier": 0.246,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000,
    "shared_intermediate_size": 2048,
    "tie_word_embeddings": True,
    "vocab_size": 100352,
}

# Facts of ibm-granite/granite-4.0-h-tiny's.
TINY = PUBLISHED | {
    "attention_multiplier": 0.0078125,
    "hidden_size": 1536,
    "intermediate_size": 512,
    "layer_types": ["attention" if index % 10 == 5 else "mamba" for index in range(40)],
    "logits_scaling": 6,
    "mamba_d_head": 64,
    "max_position_embeddings": 131072,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 40,
    "num_local_experts": 64,
    "residual_multiplier": 0.22,
    "shared_intermediate_size": 1024,
}


def test_a_published_config_is_read_as_it_is() -> None:
    config = parse_config(PUBLISHED)
    full = [kind == "full_attention" for kind in config.layer_types]
    assert [index for index, each in enumerate(full) if each] == list(_ATTENTION)
    assert (config.head_dim, config.tie_word_embeddings) == (64, True)
    sizes, form = config.mamba_sizes_in(768), config.mamba_form
    assert (sizes.width, sizes.conv_width) == (1536, 1792)
    assert (form.norm_groups, form.gate_first, form.limits) == (1, True, (0.0, math.inf))
    assert (config.embedding_multiplier, config.logits_scaling) == (12, 3)


def test_a_published_config_with_experts_is_read_as_it_is() -> None:
    config = parse_config(TINY)
    sizes = config.expert_sizes
    assert (sizes.count, sizes.inner, sizes.routing) == (64, 512, Routing(6))

    def build(weights: Weights) -> None:
        weights.stored = lambda name: () if name.endswith("_proj") else None
        GraniteHybridModel(config, weights, torch.device("cpu"))

    plan = plan_weights(build, torch.bfloat16)
    assert sum(spec.num_elements for spec in plan.values()) == pytest.approx(6.94e9, rel=2e-3)
    exact = {name.rpartition(".layers.")[2].partition(".")[2] for name in plan if plan[name].exact}
    assert exact == {"block_sparse_moe.router.weight"}
    folder = {published_names(config, ())(name) for name in plan}
    assert folder == set(plan)
    released = "model.layers.3.block_sparse_moe.input_linear.weight"
    asked = "model.layers.3.block_sparse_moe.experts.gate_up_proj"
    assert plan[asked].stored_shape == (64, 1024, 1536)
    assert published_names(config, {released})(asked) == released


def test_newer_names_of_layers_mean_the_same() -> None:
    newer = {"attention": "full_attention", "mamba": "linear_attention"}
    types = [newer[each] for each in PUBLISHED["layer_types"]]
    assert parse_config(PUBLISHED | {"layer_types": types}) == parse_config(PUBLISHED)
    older = {key: value for key, value in PUBLISHED.items() if key != "layer_types"}
    assert parse_config(older | {"layers_block_type": types}) == parse_config(PUBLISHED)


def test_what_is_left_out_has_the_value_that_transformers_gives_it() -> None:
    few = {
        "model_type": "granitemoehybrid",
        "vocab_size": 10,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_local_experts": 0,
    }
    config = parse_config(few)
    assert config.layer_types == ("linear_attention",) * 2
    assert (config.num_key_value_heads, config.head_dim, config.mamba_d_head) == (4, 16, 1)
    assert (config.mamba_n_heads, config.mamba_d_state, config.rms_norm_eps) == (128, 256, 1e-6)
    assert config.position_embedding_type == "nope" and config.shared_intermediate_size == 1024


def test_parsing_what_was_parsed_changes_nothing() -> None:
    config = parse_config(PUBLISHED)
    assert GraniteHybridConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_local_experts": 62}, "num_experts_per_tok"),
        ({"num_local_experts": 2, "num_experts_per_tok": 3}, "num_experts_per_tok"),
        ({"num_local_experts": None}, "num_experts_per_tok"),
        ({"num_local_experts": -1}, "num_local_experts"),
        ({"num_local_experts": 2**16 + 1}, "num_local_experts"),
        ({"num_local_experts": 2, "intermediate_size": 0}, "intermediate_size"),
        ({"layer_types": ["mamba"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 32}, "layer_types"),
        ({"layer_types": "mamba"}, "layer_types"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type"),
        ({"mamba_n_heads": 47}, "mamba_n_heads"),
        ({"mamba_n_groups": 5}, "mamba_n_groups"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"attention_multiplier": 0.0}, "attention_multiplier"),
        ({"logits_scaling": 0}, "logits_scaling"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"vocab_size": None}, "vocab_size"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(PUBLISHED | change)
