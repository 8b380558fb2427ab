"""Architectures without Mamba layers: those of Qwen, Llama, Ministral and LFM2."""

from __future__ import annotations

from core.api.errors import BrokenConfigError, UnknownArchitectureError
from core.gguf.models.rules import (
    ATTENTION,
    MLP,
    NORMS,
    QK_NORMS,
    ROTATED_ATTENTION,
    STACK,
    Architecture,
    Rules,
    attention,
    by_key_head,
    decay,
    decay_by_key_head,
    experts,
    inputs_by_key_head,
    joined,
    mlp,
    modules,
    one_row,
    rule,
    stack,
    taps,
    taps_by_key_head,
    zero_centred,
)
from core.gguf.models.settings import Config, Settings, rotary_share

# ------------------------------------------------------------------ Qwen


def _qwen3(settings: Settings) -> Config:
    config = settings.common() | {
        "model_type": "qwen3",
        "rope_parameters": settings.rope(),
        "use_sliding_window": settings.count("attention.sliding_window", 0) > 0,
    }
    if settings.count("expert_count", 0):
        config |= settings.experts() | {"model_type": "qwen3_moe"}
    return config


def _qwen3_vl(settings: Settings) -> Config:
    text = _qwen3(settings)
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
        "rope_parameters": settings.rope()
        | {"partial_rotary_factor": rotary_share(rotary, head_dim)},
    }
    if settings.count("expert_count", 0):
        shared = settings.count("expert_shared_feed_forward_length", 0)
        config |= settings.experts() | {"shared_expert_intermediate_size": shared}
    return config


def _qwen3_5(settings: Settings) -> Config:
    text = _gated_deltas(settings)
    kind = "qwen3_5_moe" if "num_experts" in text else "qwen3_5"
    if not settings.flag("ssm.v_head_reordered", True):
        raise BrokenConfigError(
            f"{settings.name} was made by an early Ollama, which wrote this model in another order "
            "of heads. Choose a newer file of it."
        )
    sections = settings.each("rope.dimension_sections", 3)
    text["rope_parameters"] |= {"mrope_section": sections, "mrope_interleaved": True}
    tied = text["tie_word_embeddings"]
    return {"model_type": kind, "text_config": text, "tie_word_embeddings": tied}


def _qwen3_next(settings: Settings) -> Config:
    return _gated_deltas(settings) | {"model_type": "qwen3_next"}


_QWEN3 = {**ATTENTION, **modules(QK_NORMS), **MLP, **NORMS}
_QWEN_EXPERTS: Rules = {**experts("mlp.experts"), "mlp.gate.weight": rule("ffn_gate_inp.weight")}
_SHARED_EXPERT = {
    **mlp("mlp.shared_expert", "_shexp"),
    "mlp.shared_expert_gate.weight": rule("ffn_gate_inp_shexp.weight", step=one_row),
}
_GATED_ATTENTION = {
    **attention(gated=True),
    **modules(QK_NORMS, zero_centred),
    "input_layernorm.weight": rule("attn_norm.weight", step=zero_centred),
    "post_attention_layernorm.weight": rule("post_attention_norm.weight", step=zero_centred),
}
_ZERO_CENTRED_STACK = stack(step=zero_centred)
_NEXTN = {
    "fc.weight": rule("nextn.eh_proj.weight"),
    "pre_fc_norm_embedding.weight": rule("nextn.enorm.weight", step=zero_centred),
    "pre_fc_norm_hidden.weight": rule("nextn.hnorm.weight", step=zero_centred),
    "norm.weight": rule("nextn.shared_head_norm.weight", step=zero_centred),
    "embed_tokens.weight": rule("nextn.embed_tokens.weight"),
    "shared_head.weight": rule("nextn.shared_head_head.weight"),
}

_DELTA_NET: Rules = {
    "linear_attn.in_proj_qkv.weight": rule(
        "attn_qkv.weight", "ssm_out.weight", step=by_key_head(keeping=2)
    ),
    "linear_attn.in_proj_z.weight": rule("attn_gate.weight", step=by_key_head()),
    "linear_attn.in_proj_b.weight": rule("ssm_beta.weight", step=by_key_head()),
    "linear_attn.in_proj_a.weight": rule("ssm_alpha.weight", step=by_key_head()),
    "linear_attn.conv1d.weight": rule("ssm_conv1d.weight", step=taps_by_key_head),
    "linear_attn.A_log": rule("ssm_a", step=decay_by_key_head),
    # Ollama's files leave out the ending.
    "linear_attn.dt_bias": (
        rule("ssm_dt.bias", step=by_key_head()),
        rule("ssm_dt", step=by_key_head()),
    ),
    "linear_attn.norm.weight": rule("ssm_norm.weight"),
    "linear_attn.out_proj.weight": rule("ssm_out.weight", step=inputs_by_key_head),
}
_NEXT_DELTA_NET: Rules = {
    "linear_attn.in_proj_qkv.weight": rule("attn_qkv.weight", "ssm_out.weight"),
    "linear_attn.in_proj_z.weight": rule("attn_gate.weight"),
    "linear_attn.in_proj_qkvz.weight": rule("ssm_in.weight"),
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
QWEN3 = Architecture(_qwen3, "model.", STACK, {**_QWEN3, **_QWEN_EXPERTS})
QWEN3_VL = Architecture(_qwen3_vl, _HYBRID, STACK, {**_QWEN3, **_QWEN_EXPERTS})

# ------------------------------------------------------------------ Llama, Ministral, LFM2


def _llama(settings: Settings) -> Config:
    if settings.count("expert_count", 0):
        raise UnknownArchitectureError(
            f"{settings.name} is a Llama with experts (Mixtral), which Waymark doesn't know."
        )
    config = _qwen3(settings) | {"model_type": "llama", "mlp_bias": settings.has("ffn_up.bias")}
    settings.check_rotates_all(config["head_dim"])
    divisors = settings.divisors()
    if divisors:  # those of Llama 3's scaling, whose own numbers the file doesn't have
        config["rope_parameters"] |= {"rope_type": "divided", "divisors": divisors}
    return config


def _mistral3(settings: Settings) -> Config:
    return settings.common() | {"model_type": "ministral3", "rope_parameters": _yarn(settings)}


def _yarn(settings: Settings) -> Config:
    rope = settings.rope()
    if rope["rope_type"] != "yarn":
        return rope
    known = {
        "beta_fast": "rope.scaling.yarn_beta_fast",
        "beta_slow": "rope.scaling.yarn_beta_slow",
        "attention_factor": "rope.scaling.yarn_attn_factor",
        "mscale": "rope.scaling.yarn_log_multiplier",
        "mscale_all_dim": "rope.scaling.yarn_log_multiplier",
        "llama_4_scaling_beta": "attention.temperature_scale",
    }
    rope |= {name: settings.number(key) for name, key in known.items() if key in settings}
    length = settings.count("rope.scaling.original_context_length")
    return rope | {"original_max_position_embeddings": length}


def _gpt_oss(settings: Settings) -> Config:
    """The kind of each layer, and the numbers of its gates, are those of the releases."""
    return settings.common() | {
        "model_type": "gpt_oss",
        "intermediate_size": settings.count("expert_feed_forward_length"),
        "num_local_experts": settings.count("expert_count"),
        "num_experts_per_tok": settings.count("expert_used_count"),
        "sliding_window": settings.count("attention.sliding_window"),
        "rope_parameters": _yarn(settings) | {"truncate": False},
        "gates_first": True,
    }


def _lfm2(settings: Settings) -> Config:
    return settings.common() | {
        "model_type": "lfm2",
        "norm_eps": settings.number("attention.layer_norm_rms_epsilon"),
        "conv_L_cache": settings.count("shortconv.l_cache"),
        "conv_bias": settings.has("shortconv.conv.bias"),
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["full_attention" if heads else "conv" for heads in settings.kv_heads],
        "rope_parameters": settings.rope(default=1_000_000.0),
    }


def _lfm2_moe(settings: Settings) -> Config:
    return (
        _lfm2(settings)
        | settings.experts()
        | {
            "model_type": "lfm2_moe",
            "num_dense_layers": settings.count("leading_dense_block_count"),
            "routed_scaling_factor": settings.number("expert_weights_scale", 1.0),
        }
    )


LLAMA = Architecture(_llama, "model.", STACK, {**ROTATED_ATTENTION, **MLP, **NORMS})
MISTRAL3 = Architecture(_mistral3, "model.", STACK, {**ROTATED_ATTENTION, **MLP, **NORMS})
GPT_OSS = Architecture(
    _gpt_oss,
    "model.",
    STACK,
    {
        **ATTENTION,
        **experts("mlp.experts"),
        **modules({"mlp.router": "ffn_gate_inp"}),
        "mlp.experts.gate_up_proj_bias": joined("ffn_gate_exps.bias", "ffn_up_exps.bias"),
        **{
            f"mlp.experts.{each}_proj_bias": rule(f"ffn_{each}_exps.bias")
            for each in ("gate", "up", "down")
        },
        "self_attn.sinks": rule("attn_sinks.weight"),
        "input_layernorm.weight": rule("attn_norm.weight"),
        "post_attention_layernorm.weight": rule("post_attention_norm.weight"),
    },
)
_LFM2_STACK: Rules = {
    "embed_tokens.weight": rule("token_embd.weight"),
    "embedding_norm.weight": (rule("token_embd_norm.weight"), rule("output_norm.weight")),
}
_LFM2_LAYER: Rules = {
    **ATTENTION,
    **modules({
        "self_attn.out_proj": "attn_output",
        "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
        "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
        "feed_forward.w2": "ffn_down", "conv.in_proj": "shortconv.in_proj",
        "conv.out_proj": "shortconv.out_proj",
    }),
    "conv.conv.weight": rule("shortconv.conv.weight", step=taps),
    "conv.conv.bias": rule("shortconv.conv.bias"),
    "operator_norm.weight": rule("attn_norm.weight"),
    "ffn_norm.weight": rule("ffn_norm.weight"),
}  # fmt: skip
_LFM2_EXPERTS: Rules = {
    **experts("feed_forward.experts"),
    "feed_forward.gate.weight": rule("ffn_gate_inp.weight"),
    "feed_forward.expert_bias": (rule("exp_probs_b.bias"), rule("exp_probs_b")),
}
LFM2 = Architecture(_lfm2, "model.", _LFM2_STACK, _LFM2_LAYER)
LFM2_MOE = Architecture(_lfm2_moe, "model.", _LFM2_STACK, _LFM2_LAYER | _LFM2_EXPERTS)
