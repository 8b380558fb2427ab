"""Kimi-Linear, whose files have the latent's projection to keys and values in two parts."""

from __future__ import annotations

from core.gguf.models.recipe import Recipe, shaped
from core.gguf.models.rules import (
    ATTENTION,
    MLP,
    NORMS,
    STACK,
    Architecture,
    decay,
    experts,
    mlp,
    modules,
    rule,
    taps,
)
from core.gguf.models.settings import Config, Settings


def _config(settings: Settings) -> Config:
    kinds = ["full_attention" if heads else "linear_attention" for heads in settings.kv_heads]
    config = settings.sizes()
    heads, shared = config["num_attention_heads"], settings.count("rope.dimension_count")
    if "linear_attention" in kinds:
        heads = settings.rows(f"blk.{kinds.index('linear_attention')}.ssm_beta.weight")
    return config | {
        "model_type": "kimi_linear",
        "layer_types": kinds,
        "linear_num_heads": heads,
        "linear_head_dim": settings.count("kda.head_dim"),
        "linear_conv_kernel_dim": settings.count("ssm.conv_kernel"),
        "kv_lora_rank": settings.count("attention.kv_lora_rank"),
        "qk_rope_head_dim": shared,
        "qk_nope_head_dim": settings.count("attention.key_length_mla") - shared,
        "v_head_dim": settings.count("attention.value_length_mla"),
        "first_k_dense_replace": settings.count("leading_dense_block_count", 0),
        "num_experts": settings.count("expert_count"),
        "num_experts_per_tok": settings.count("expert_used_count"),
        "n_shared_experts": settings.count("expert_shared_count", 1),
        "n_group": settings.count("expert_group_count", 1),
        "topk_group": settings.count("expert_group_used_count", 1),
        "moe_intermediate_size": settings.count("expert_feed_forward_length"),
        "norm_topk_prob": settings.flag("expert_weights_norm", True),
        "routed_scaling_factor": settings.number("expert_weights_scale", 1.0),
    }


def _of_heads(settings: Settings, recipe: Recipe) -> Recipe:
    return decay(settings, shaped(recipe, 1, 1, -1, 1))


_SPARSE = "block_sparse_moe"
KIMI_LINEAR = Architecture(
    _config,
    "model.",
    STACK,
    {
        **ATTENTION,
        **MLP,
        **NORMS,
        **modules({
            "self_attn.b_proj": "ssm_beta", "self_attn.f_a_proj": "ssm_f_a",
            "self_attn.f_b_proj": "ssm_f_b", "self_attn.g_a_proj": "ssm_g_a",
            "self_attn.g_b_proj": "ssm_g_b", "self_attn.o_norm": "ssm_norm",
            "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
            "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
            "self_attn.k_b_proj": "attn_k_b", "self_attn.v_b_proj": "attn_v_b",
            f"{_SPARSE}.gate": "ffn_gate_inp",
        }),
        **mlp(f"{_SPARSE}.shared_experts", "_shexp"),
        **{f"self_attn.{each}_conv1d.weight": rule(f"ssm_conv1d_{each}.weight", step=taps)
           for each in "qkv"},
        "self_attn.A_log": rule("ssm_a", step=_of_heads),
        "self_attn.dt_bias": (rule("ssm_dt.bias"), rule("ssm_dt")),
        **experts(f"{_SPARSE}.experts"),
        f"{_SPARSE}.gate.e_score_correction_bias": (rule("exp_probs_b.bias"), rule("exp_probs_b")),
    },
)  # fmt: skip
