"""Configs of released models with sparse experts: what is read of them, and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.loading.registry import FAMILIES
from core.models import qwen3_5_moe, qwen3_moe, qwen3_next
from core.weights.plan import Weights, plan_weights
from core.weights.spec import WeightPlan, planned_bytes
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, WeightFormats

ROPE = {
    "mrope_interleaved": True,
    "mrope_section": [11, 11, 10],
    "partial_rotary_factor": 0.25,
    "rope_theta": 10_000_000,
    "rope_type": "default",
}
# Facts of config.json as published, keys that nobody asks for among them.
QWEN3_5_35B_A3B: dict[str, Any] = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe_text",
    "vocab_size": 248_320,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "full_attention_interval": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attn_output_gate": True,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "mamba_ssm_dtype": "float32",
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "mlp_only_layers": [],
    "router_aux_loss_coef": 0.001,
    "max_position_embeddings": 262_144,
    "mtp_num_hidden_layers": 1,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_parameters": ROPE,
    "tie_word_embeddings": False,
}
QWEN3_NEXT_80B_A3B: dict[str, Any] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 48,
    "full_attention_interval": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "norm_topk_prob": True,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "max_position_embeddings": 262_144,
    "partial_rotary_factor": 0.25,
    "rope_theta": 10_000_000,
    "rope_scaling": None,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
QWEN3_30B_A3B: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "max_position_embeddings": 40_960,
    "rope_theta": 1_000_000.0,
    "rope_scaling": None,
    "sliding_window": None,
    "use_sliding_window": False,
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
RELEASED = {
    "Qwen3.5-35B-A3B": QWEN3_5_35B_A3B,
    "Qwen3-Next-80B-A3B": QWEN3_NEXT_80B_A3B,
    "Qwen3-30B-A3B": QWEN3_30B_A3B,
}
# All parameters but those of vision towers and of heads that predict several tokens.
BILLIONS = {"Qwen3.5-35B-A3B": 34.66, "Qwen3-Next-80B-A3B": 79.67, "Qwen3-30B-A3B": 30.53}


def planned(config: Mapping[str, Any], *, fused: bool) -> WeightPlan:
    family = FAMILIES[config["model_type"]]
    parsed = family.parse(config)

    def build(weights: Weights) -> None:
        # Their MTP heads are held to their own tests.
        weights.stored = lambda name: () if fused and not name.startswith("mtp.") else None
        family.build(parsed, weights, torch.device("cpu"))

    return plan_weights(build, torch.bfloat16)


def matrix_numbers(config: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers of what is quantised, and of routers, by arithmetic."""
    width, count = config["hidden_size"], config["num_experts"]
    layers, dim = config["num_hidden_layers"], config["head_dim"]
    experts = count * 3 * config["moe_intermediate_size"] * width
    shared = 3 * config.get("shared_expert_intermediate_size", 0) * width
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    if config["model_type"] == "qwen3_moe":
        mixers = layers * (2 * heads + 2 * kv_heads) * dim * width
    else:
        keys, values = 16 * 128, 32 * 128
        linear = (2 * keys + 3 * values + 2 * 32) * width
        full = (3 * heads + 2 * kv_heads) * dim * width
        mixers = layers // 4 * (3 * linear + full)
    head = config["vocab_size"] * width
    routers = layers * width * (count + (1 if shared else 0))
    return layers * (experts + shared) + mixers + head, routers


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", RELEASED)
def test_the_estimate_is_right_within_three_percent(name: str, fused: bool) -> None:
    config = RELEASED[name]
    plan = planned(config, fused=fused)
    total = sum(spec.num_elements for spec in plan.values())
    assert total / 1e9 == pytest.approx(BILLIONS[name], rel=0.005)
    numbers, routers = matrix_numbers(config)
    # A number in a group of 32 with a scale and an offset; or in a row with one scale.
    for weight_format, bytes_a_number in (
        (Int4Format(packed=False), 0.5 + 4 / 32),
        (Int8Format(None), 1),
        (PlainFormat(), 2),
    ):
        formats = WeightFormats(weight_format, PlainFormat(), rows_from_file=True)
        expected = numbers * bytes_a_number + 2 * routers
        assert planned_bytes(plan, formats) == pytest.approx(expected, rel=0.03)


def test_a_qwen3_5_moe_is_read_as_it_was_meant() -> None:
    config = qwen3_5_moe.parse_config(QWEN3_5_35B_A3B).text_config
    sizes = config.expert_sizes(config.hidden_size)
    assert (sizes.count, sizes.routing.k, sizes.inner, sizes.shared) == (256, 8, 512, 512)
    assert sizes.routing.normalise and all(config.is_sparse(layer) for layer in range(40))
    assert config.types[:4] == ("linear_attention",) * 3 + ("full_attention",)
    assert config.rotary_dim == 64 and not config.delta_net_sizes.by_key_head


def test_a_qwen3_next_is_read_as_it_was_meant() -> None:
    config = qwen3_next.parse_config(QWEN3_NEXT_80B_A3B)
    text = config.text_config
    assert text.rope_parameters.rope_theta == 1e7 and text.rotary_dim == 64
    assert text.delta_net_sizes.by_key_head and config.vision is None and not config.tied
    left_out = {key: each for key, each in QWEN3_NEXT_80B_A3B.items() if "expert" not in key}
    sizes = qwen3_next.parse_config(left_out).text_config.expert_sizes(2048)
    assert (sizes.count, sizes.routing.k, sizes.shared) == (512, 10, 512)


def test_what_a_qwen3_moe_leaves_out_has_its_published_value() -> None:
    names = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    config = qwen3_moe.parse_config({name: QWEN3_30B_A3B[name] for name in names})
    assert (config.num_experts, config.num_experts_per_tok) == (128, 8)
    assert config.moe_intermediate_size == 768 and not config.norm_topk_prob
    assert (config.num_key_value_heads, config.head_dim) == (4, 64)
    older = qwen3_moe.parse_config(
        {name: QWEN3_30B_A3B[name] for name in names} | {"num_local_experts": 60}
    )
    assert older.num_experts == 60


def test_some_layers_may_be_dense() -> None:
    config = qwen3_moe.parse_config(
        QWEN3_30B_A3B | {"decoder_sparse_step": 2, "mlp_only_layers": [3]}
    )
    sparse = [layer for layer in range(8) if config.is_sparse(layer)]
    assert sparse == [1, 5, 7]


@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_experts_per_tok": 1000}, "num_experts_per_tok"),
        ({"num_experts": 0}, "num_experts"),
        ({"num_experts": 2**16 + 1}, "num_experts"),
        ({"num_experts": "many"}, "num_experts"),
        ({"moe_intermediate_size": -1}, "moe_intermediate_size"),
        ({"mlp_only_layers": ["first"]}, "mlp_only_layers"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step"),
        ({"hidden_act": "gelu"}, "hidden_act"),
    ],
)
def test_what_does_not_fit_is_named(name: str, change: dict[str, Any], words: str) -> None:
    config = RELEASED[name] | change
    with pytest.raises(BrokenConfigError, match=words):
        FAMILIES[config["model_type"]].parse(config)
