"""Architectures of Falcon-H1, Granite 4, Granite SWA, Jamba and Nemotron-H."""

from __future__ import annotations

from typing import Any

from core.api.errors import BrokenConfigError
from core.gguf.models.rules import (
    ATTENTION,
    MLP,
    NORMS,
    ROTATED_ATTENTION,
    STACK,
    Architecture,
    decay,
    experts,
    flat,
    flat_decay,
    mlp,
    modules,
    rule,
    stack,
    taps,
)
from core.gguf.models.settings import Config, Settings


def _mamba2(scope: str) -> dict[str, Any]:
    return {
        **modules({f"{scope}.in_proj": "ssm_in", f"{scope}.out_proj": "ssm_out"}),
        f"{scope}.conv1d.weight": rule("ssm_conv1d.weight", step=taps),
        f"{scope}.conv1d.bias": rule("ssm_conv1d.bias"),
        f"{scope}.A_log": rule("ssm_a", step=flat_decay),
        f"{scope}.D": rule("ssm_d", step=flat),
        f"{scope}.dt_bias": rule("ssm_dt.bias"),
        f"{scope}.norm.weight": rule("ssm_norm.weight", step=flat),
    }


def _mamba2_config(settings: Settings) -> Config:
    heads = settings.count("ssm.time_step_rank")
    return {
        "mamba_n_heads": heads,
        "mamba_d_head": settings.count("ssm.inner_size") // max(1, heads),
        "mamba_n_groups": settings.count("ssm.group_count", 1),
        "mamba_d_state": settings.count("ssm.state_size"),
        "mamba_d_conv": settings.count("ssm.conv_kernel"),
        "mamba_conv_bias": settings.has("ssm_conv1d.bias"),
        "mamba_proj_bias": settings.has("ssm_in.bias"),
    }


# ------------------------------------------------------------------ Falcon-H1


def _falcon_h1(settings: Settings) -> Config:
    """All multipliers are part of the weights."""
    return settings.common() | _mamba2_config(settings) | {
        "model_type": "falcon_h1",
        "rope_parameters": settings.rope(),
        "mlp_bias": settings.has("ffn_up.bias"),
        "projectors_bias": settings.has("ssm_out.bias"),
        "mamba_d_ssm": settings.count("ssm.inner_size"),
        "mamba_rms_norm": settings.has("ssm_norm.weight"),
        "mamba_norm_before_gate": False,
    }  # fmt: skip


FALCON_H1 = Architecture(
    _falcon_h1,
    "model.",
    stack("final_layernorm"),
    {
        **ATTENTION,
        **_mamba2("mamba"),
        **mlp("feed_forward"),
        "input_layernorm.weight": rule("attn_norm.weight"),
        "pre_ff_layernorm.weight": (rule("ffn_norm.weight"), rule("ffn_norm")),
    },
)

# ------------------------------------------------------------------ Granite


def _granite_hybrid(settings: Settings) -> Config:
    shared = "expert_shared_feed_forward_length"
    config = settings.common()
    kinds = ["full_attention" if heads else "linear_attention" for heads in settings.kv_heads]
    config["mamba_n_heads"] = 1  # of no layer, unless there is one
    if "linear_attention" in kinds:
        inner = settings.count("ssm.inner_size")
        config |= _mamba2_config(settings)
        config["mamba_expand"] = inner // max(1, config["hidden_size"])
    rotates = settings.flag("rope.scaling.finetuned", True)
    return config | _multipliers(settings, config["head_dim"]) | {
        "model_type": "granitemoehybrid",
        "layer_types": kinds,
        "position_embedding_type": "rope" if rotates else "nope",
        "rope_parameters": settings.rope(),
        "shared_intermediate_size": settings.count(shared, config.get("intermediate_size", 0)),
    }  # fmt: skip


def _multipliers(settings: Settings, head_dim: int) -> Config:
    return {
        "num_local_experts": settings.count("expert_count", 0),
        "num_experts_per_tok": settings.count("expert_used_count", 0),
        "attention_multiplier": settings.number("attention.scale", head_dim**-0.5),
        "embedding_multiplier": settings.number("embedding_scale", 1.0),
        "residual_multiplier": settings.number("residual_scale", 1.0),
        "logits_scaling": settings.number("logit_scale", 1.0),
    }


def _granite_swa(settings: Settings) -> Config:
    config, layers = settings.common(), settings.num_layers
    # The converter leaves out bases of single layers, but not which of them have positions.
    theta = settings.number("rope.freq_base", 10000.0)
    rotates = settings.each("attention.rope_pattern", layers, 1)
    sliding = settings.each("attention.sliding_window_pattern", layers)
    return config | _multipliers(settings, config["head_dim"]) | {
        "model_type": "granitemoe_swa" if settings.count("expert_count", 0) else "granite_swa",
        "layer_types": ["sliding_attention" if each else "full_attention" for each in sliding],
        "layer_rope_theta": [theta if each else 0.0 for each in rotates],
        "rope_parameters": settings.rope(),
        "sliding_window": settings.count("attention.sliding_window"),
        "shared_intermediate_size": settings.count("expert_shared_feed_forward_length", 0),
        "mlp_bias": settings.has("ffn_up.bias"),
    }  # fmt: skip


GRANITE_HYBRID = Architecture(
    _granite_hybrid,
    "model.",
    STACK,
    {
        **ROTATED_ATTENTION,
        **NORMS,
        **_mamba2("mamba"),
        **experts("block_sparse_moe.experts"),
        "block_sparse_moe.router.layer.weight": rule("ffn_gate_inp.weight"),
        **{
            f"shared_mlp.{each}_proj.weight": (
                rule(f"ffn_{each}_shexp.weight"),
                rule(f"ffn_{each}.weight"),
            )
            for each in ("gate", "up")
        },
        "shared_mlp.output_linear.weight": (rule("ffn_down_shexp.weight"), rule("ffn_down.weight")),
    },
)
GRANITE_SWA = Architecture(
    _granite_swa,
    "model.",
    STACK,
    {
        **ROTATED_ATTENTION,
        **NORMS,
        **MLP,
        **experts("block_sparse_moe.experts"),
        "block_sparse_moe.router.weight": rule("ffn_gate_inp.weight"),
        "self_attn.sinks": rule("attn_sinks.weight"),
        "shared_mlp.input_linear.weight": rule("ffn_up_shexp.weight"),
        "shared_mlp.output_linear.weight": rule("ffn_down_shexp.weight"),
    },
)

# ------------------------------------------------------------------ Jamba


def _jamba(settings: Settings) -> Config:
    config = settings.common()
    layers = config["num_hidden_layers"]
    attention = [layer for layer, heads in enumerate(settings.kv_heads) if heads]
    sparse = settings.layers_with("ffn_gate_inp.weight")
    (period, offset), (every, first) = (
        _regular(settings, each, layers) for each in (attention, sparse)
    )
    return config | {
        "model_type": "jamba",
        "attn_layer_period": period,
        "attn_layer_offset": offset,
        "expert_layer_period": every,
        "expert_layer_offset": first,
        "num_experts": settings.count("expert_count", 0) if sparse else 1,
        "num_experts_per_tok": settings.count("expert_used_count", 0) or 1,
        "mamba_d_state": settings.count("ssm.state_size"),
        "mamba_d_conv": settings.count("ssm.conv_kernel"),
        "mamba_expand": settings.count("ssm.inner_size") // max(1, config["hidden_size"]),
        "mamba_dt_rank": settings.count("ssm.time_step_rank"),
        "mamba_conv_bias": settings.has("ssm_conv1d.bias"),
        "mamba_proj_bias": settings.has("ssm_in.bias"),
    }


def _regular(settings: Settings, chosen: list[int], layers: int) -> tuple[int, int]:
    """Period and offset of the `chosen` layers."""
    first = chosen[0] if chosen else layers
    period = chosen[1] - first if len(chosen) > 1 else layers + 1
    if not first < period or chosen != list(range(first, layers, period)):
        raise BrokenConfigError(f"The layers of {settings.name} don't repeat as Jamba's do.")
    return period, first


JAMBA = Architecture(
    _jamba,
    "model.",
    stack("final_layernorm"),
    {
        **ATTENTION,
        **experts("feed_forward.experts"),
        **mlp("feed_forward"),
        **modules({
            "feed_forward.router": "ffn_gate_inp",
            "mamba.in_proj": "ssm_in", "mamba.out_proj": "ssm_out", "mamba.x_proj": "ssm_x",
            "mamba.dt_proj": "ssm_dt", "mamba.dt_layernorm": "ssm_dt_norm",
            "mamba.b_layernorm": "ssm_b_norm", "mamba.c_layernorm": "ssm_c_norm",
        }),
        "mamba.conv1d.weight": rule("ssm_conv1d.weight", step=taps),
        "mamba.conv1d.bias": rule("ssm_conv1d.bias"),
        "mamba.A_log": rule("ssm_a", step=decay),
        "mamba.D": rule("ssm_d"),
        "input_layernorm.weight": rule("attn_norm.weight"),
        "pre_ff_layernorm.weight": rule("ffn_norm.weight"),
    },
)  # fmt: skip

# ------------------------------------------------------------------ Nemotron-H


def _nemotron_h(settings: Settings) -> Config:
    config, layers = settings.common(), settings.num_layers
    heads, inner = settings.count("ssm.time_step_rank"), settings.count("ssm.inner_size")
    widths = settings.each("feed_forward_length", layers, 0)
    forward = "moe" if settings.count("expert_count", 0) else "mlp"
    epsilon = settings.number("attention.layer_norm_epsilon", 1e-5)
    config |= {
        "model_type": "nemotron_h",
        "layers_block_type": [
            "full_attention" if kv_heads else forward if width else "linear_attention"
            for kv_heads, width in zip(settings.kv_heads, widths, strict=True)
        ],
        "layer_norm_epsilon": settings.number("attention.layer_norm_rms_epsilon", epsilon),
        "mamba_num_heads": heads,
        "mamba_head_dim": inner // max(1, heads),
        "ssm_state_size": settings.count("ssm.state_size"),
        "n_groups": settings.count("ssm.group_count", 1),
        "conv_kernel": settings.count("ssm.conv_kernel"),
        "use_conv_bias": settings.has("ssm_conv1d.bias"),
        "use_bias": settings.has("ssm_in.bias"),
        "mlp_bias": settings.has("ffn_up.bias") or settings.has("ffn_up_shexp.bias"),
    }
    return config | (_nemotron_experts(settings) if forward == "moe" else {})


def _nemotron_experts(settings: Settings) -> Config:
    return {
        "n_routed_experts": settings.count("expert_count"),
        "num_experts_per_tok": settings.count("expert_used_count"),
        "n_shared_experts": settings.count("expert_shared_count", 1),
        "moe_intermediate_size": settings.count("expert_feed_forward_length"),
        "moe_shared_expert_intermediate_size": settings.count("expert_shared_feed_forward_length"),
        "moe_latent_size": settings.count("moe_latent_size", 0) or None,
        "routed_scaling_factor": settings.number("expert_weights_scale", 1.0),
        "norm_topk_prob": settings.flag("expert_weights_norm", True),
        "n_group": settings.count("expert_group_count", 1),
        "topk_group": settings.count("expert_group_used_count", 1),
    }


NEMOTRON_H = Architecture(
    _nemotron_h,
    "backbone.",
    {"embeddings.weight": rule("token_embd.weight"), "norm_f.weight": rule("output_norm.weight")},
    {
        **{name.replace("self_attn", "mixer"): each for name, each in ROTATED_ATTENTION.items()},
        **_mamba2("mixer"),
        **modules({
            "norm": "attn_norm", "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down",
            "mixer.gate": "ffn_gate_inp", "mixer.shared_experts.up_proj": "ffn_up_shexp",
            "mixer.shared_experts.down_proj": "ffn_down_shexp",
            "mixer.fc1_latent_proj": "ffn_latent_down", "mixer.fc2_latent_proj": "ffn_latent_up",
        }),
        "mixer.experts.up_proj": rule("ffn_up_exps.weight"),
        "mixer.experts.down_proj": rule("ffn_down_exps.weight"),
        "mixer.gate.e_score_correction_bias": (rule("exp_probs_b.bias"), rule("exp_probs_b")),
    },
)  # fmt: skip
