"""Qwen's architectures: Qwen3, Qwen3-VL, Qwen3-Next and Qwen3.5, dense and with sparse experts."""

from __future__ import annotations

import math

from core.gguf.rules import (
    ATTENTION,
    MLP,
    NORMS,
    QK_NORMS,
    STACK,
    Architecture,
    Rules,
    all_by_key_head,
    by_key_head,
    decay,
    decay_by_key_head,
    experts,
    inputs_by_key_head,
    modules,
    one_row,
    rule,
    taps,
    taps_by_key_head,
    zero_centred,
)
from core.gguf.settings import Config, Settings

# ------------------------------------------------------------------ config


def qwen3(settings: Settings) -> Config:
    config = settings.common() | {
        "model_type": "qwen3",
        "rope_parameters": settings.rope(),
        "use_sliding_window": settings.count("attention.sliding_window", 0) > 0,
    }
    if settings.count("expert_count", 0):
        config |= settings.experts() | {"model_type": "qwen3_moe"}
    return config


def _qwen3_vl(settings: Settings) -> Config:
    text = qwen3(settings)
    kind = "qwen3_vl_moe" if "num_experts" in text else "qwen3_vl"
    sections = settings.each("rope.dimension_sections", 3)
    text["rope_parameters"] |= {"mrope_section": sections, "mrope_interleaved": True}
    return {
        "model_type": kind,
        "text_config": text,
        "tie_word_embeddings": text["tie_word_embeddings"],
    }


def _gated_deltas(settings: Settings) -> Config:
    head_dim, layers = settings.head_dim, settings.num_layers
    value_heads = settings.count("ssm.time_step_rank")
    every = settings.count("full_attention_interval", 4)
    linear = (
        settings.each("attention.recurrent_layers", layers)
        if "attention.recurrent_layers" in settings
        else [(layer + 1) % max(1, every) for layer in range(layers)]
    )
    rotary = settings.count("rope.dimension_count", head_dim)
    config = settings.common() | {
        "layer_types": ["linear_attention" if each else "full_attention" for each in linear],
        "linear_conv_kernel_dim": settings.count("ssm.conv_kernel"),
        "linear_key_head_dim": settings.count("ssm.state_size"),
        "linear_num_key_heads": settings.count("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        "linear_value_head_dim": settings.count("ssm.inner_size") // max(1, value_heads),
        "rope_parameters": settings.rope() | {"partial_rotary_factor": _share(rotary, head_dim)},
    }
    if settings.count("expert_count", 0):
        shared = settings.count("expert_shared_feed_forward_length", 0)
        config |= settings.experts() | {"shared_expert_intermediate_size": shared}
    return config


def _share(rotary: int, head_dim: int) -> float:
    """The share of a head that is rotated: its product with the head is rounded down."""
    share = rotary / max(1, head_dim)
    return share if int(share * head_dim) == rotary else math.nextafter(share, math.inf)


def _qwen3_5(settings: Settings) -> Config:
    text = _gated_deltas(settings)
    kind = "qwen3_5_moe" if "num_experts" in text else "qwen3_5"
    sections = settings.each("rope.dimension_sections", 3)
    text["rope_parameters"] |= {"mrope_section": sections, "mrope_interleaved": True}
    tied = text["tie_word_embeddings"]
    return {"model_type": kind, "text_config": text, "tie_word_embeddings": tied}


def _qwen3_next(settings: Settings) -> Config:
    return _gated_deltas(settings) | {"model_type": "qwen3_next"}


# ------------------------------------------------------------------ rules

_QWEN3 = {**ATTENTION, **modules(QK_NORMS), **MLP, **NORMS}
_QWEN_EXPERTS: Rules = {
    **experts("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    "mlp.gate.weight": rule("ffn_gate_inp.weight"),
}
_SHARED_EXPERT = {
    **modules({
        "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
        "mlp.shared_expert.up_proj": "ffn_up_shexp",
        "mlp.shared_expert.down_proj": "ffn_down_shexp",
    }),
    "mlp.shared_expert_gate.weight": rule("ffn_gate_inp_shexp.weight", step=one_row),
}  # fmt: skip
_GATED_ATTENTION = {
    **ATTENTION,
    **modules(QK_NORMS, zero_centred),
    "input_layernorm.weight": rule("attn_norm.weight", step=zero_centred),
    "post_attention_layernorm.weight": rule("post_attention_norm.weight", step=zero_centred),
}
_ZERO_CENTRED_STACK = STACK | {"norm.weight": rule("output_norm.weight", step=zero_centred)}
_NEXTN = {
    "fc.weight": rule("nextn.eh_proj.weight"),
    "pre_fc_norm_embedding.weight": rule("nextn.enorm.weight", step=zero_centred),
    "pre_fc_norm_hidden.weight": rule("nextn.hnorm.weight", step=zero_centred),
    "norm.weight": rule("nextn.shared_head_norm.weight", step=zero_centred),
    "embed_tokens.weight": rule("nextn.embed_tokens.weight"),
    "shared_head.weight": rule("nextn.shared_head_head.weight"),
}

_DELTA_NET = {
    "linear_attn.in_proj_qkv.weight": rule("attn_qkv.weight", step=by_key_head(keeping=2)),
    "linear_attn.in_proj_z.weight": rule("attn_gate.weight", step=by_key_head()),
    "linear_attn.in_proj_b.weight": rule("ssm_beta.weight", step=by_key_head()),
    "linear_attn.in_proj_a.weight": rule("ssm_alpha.weight", step=by_key_head()),
    "linear_attn.conv1d.weight": rule("ssm_conv1d.weight", step=taps_by_key_head),
    "linear_attn.A_log": rule("ssm_a", step=decay_by_key_head),
    "linear_attn.dt_bias": rule("ssm_dt.bias", step=by_key_head()),
    "linear_attn.norm.weight": rule("ssm_norm.weight"),
    "linear_attn.out_proj.weight": rule("ssm_out.weight", step=inputs_by_key_head),
}
_NEXT_DELTA_NET: Rules = {
    "linear_attn.in_proj_qkvz.weight": (
        rule("attn_qkv.weight", "attn_gate.weight", step=all_by_key_head),
        rule("ssm_in.weight"),
    ),
    "linear_attn.in_proj_ba.weight": rule("ssm_ba.weight"),
    "linear_attn.conv1d.weight": rule("ssm_conv1d.weight", step=taps),
    "linear_attn.A_log": rule("ssm_a", step=decay),
    "linear_attn.dt_bias": rule("ssm_dt.bias"),
    "linear_attn.norm.weight": rule("ssm_norm.weight"),
    "linear_attn.out_proj.weight": rule("ssm_out.weight"),
}
_ALL_EXPERTS = {**MLP, **_QWEN_EXPERTS, **_SHARED_EXPERT}
_HYBRID = "model.language_model."
QWEN35 = Architecture(
    _qwen3_5,
    _HYBRID,
    _ZERO_CENTRED_STACK,
    {**_GATED_ATTENTION, **_DELTA_NET, **_ALL_EXPERTS},
    _NEXTN,
)
QWEN3_NEXT = Architecture(
    _qwen3_next,
    _HYBRID,
    _ZERO_CENTRED_STACK,
    {**_GATED_ATTENTION, **_NEXT_DELTA_NET, **_ALL_EXPERTS},
    _NEXTN,
)
QWEN3 = Architecture(qwen3, "model.", STACK, {**_QWEN3, **_QWEN_EXPERTS})
QWEN3_VL = Architecture(_qwen3_vl, _HYBRID, STACK, {**_QWEN3, **_QWEN_EXPERTS})
