"""The architectures of GGUF files that Waymark runs, by `general.architecture`.

A file of a known one becomes the config.json of a model folder, and recipes of its tensors under
the names that such a folder has. Transformations are the inverse of those of llama.cpp's converter.
"""

from __future__ import annotations

from core.api.errors import BrokenConfigError, UnknownArchitectureError, shown
from core.gguf.file import GGUFFile
from core.gguf.mamba import FALCON_H1, GRANITE_HYBRID, JAMBA, NEMOTRON_H
from core.gguf.qwen import QWEN3, QWEN3_NEXT, QWEN3_VL, QWEN35, qwen3
from core.gguf.rules import (
    ATTENTION,
    MLP,
    NORMS,
    QK_NORMS,
    ROTATED_ATTENTION,
    STACK,
    Architecture,
    Recipes,
    modules,
    rule,
    taps,
    zero_centred,
)
from core.gguf.settings import Config, Settings
from core.gguf.vision import CLIP

# ------------------------------------------------------------------ Llama, Gemma, LFM2


def _llama(settings: Settings) -> Config:
    if settings.count("expert_count", 0):
        raise UnknownArchitectureError(
            f"{settings.name} is a Llama with experts (Mixtral), which Waymark doesn't know."
        )
    config = qwen3(settings) | {"model_type": "llama", "mlp_bias": settings.has("ffn_up.bias")}
    if settings.count("rope.dimension_count", config["head_dim"]) != config["head_dim"]:
        raise BrokenConfigError(f"{settings.name} rotates a part of each head, which is refused.")
    divisors = settings.divisors()
    if divisors:  # those of Llama 3's scaling, whose own numbers the file doesn't have
        config["rope_parameters"] |= {"rope_type": "divided", "divisors": divisors}
    return config


def _gemma3(settings: Settings) -> Config:
    layers, pattern = settings.num_layers, "attention.sliding_window_pattern"
    text = settings.common()
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    period = settings.count(pattern, 6) if not settings.is_list(pattern) else 0
    sliding = (
        [(layer + 1) % period for layer in range(layers)]
        if period
        else settings.each(pattern, layers)
    )
    kinds = ["sliding_attention" if each else "full_attention" for each in sliding]
    # The largest release alone scales scores by another number, which the file doesn't have.
    scale = hidden // max(1, heads) if layers == 62 else text["head_dim"]
    text |= {
        "layer_types": kinds,
        "sliding_window": settings.count("attention.sliding_window", 4096),
        "query_pre_attn_scalar": float(scale),
        "rope_parameters": {
            "full_attention": settings.rope(default=1_000_000.0),
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": settings.number("rope.freq_base_swa", 10000.0),
            },
        },
    }
    if "final_logit_softcapping" in settings:
        text["final_logit_softcapping"] = settings.number("final_logit_softcapping")
    return text | {"model_type": "gemma3_text"}


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


_LLAMA = Architecture(_llama, "model.", STACK, {**ROTATED_ATTENTION, **MLP, **NORMS})
_GEMMA3 = Architecture(
    _gemma3,
    "language_model.model.",
    STACK | {"norm.weight": rule("output_norm.weight", step=zero_centred)},
    {
        **ATTENTION,
        **MLP,
        **modules(QK_NORMS, zero_centred),
        "input_layernorm.weight": rule("attn_norm.weight", step=zero_centred),
        "post_attention_layernorm.weight": rule("post_attention_norm.weight", step=zero_centred),
        "pre_feedforward_layernorm.weight": rule("ffn_norm.weight", step=zero_centred),
        "post_feedforward_layernorm.weight": rule("post_ffw_norm.weight", step=zero_centred),
    },
)
_LFM2 = Architecture(
    _lfm2,
    "model.",
    {
        "embed_tokens.weight": rule("token_embd.weight"),
        "embedding_norm.weight": (rule("token_embd_norm.weight"), rule("output_norm.weight")),
    },
    {
        **modules({
            "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output",
            "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
            "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
            "feed_forward.w2": "ffn_down", "conv.in_proj": "shortconv.in_proj",
            "conv.out_proj": "shortconv.out_proj",
        }),
        "conv.conv.weight": rule("shortconv.conv.weight", step=taps),
        "conv.conv.bias": rule("shortconv.conv.bias"),
        "operator_norm.weight": rule("attn_norm.weight"),
        "ffn_norm.weight": rule("ffn_norm.weight"),
    },
)  # fmt: skip

# ------------------------------------------------------------------ registry

ARCHITECTURES = {
    "qwen35": QWEN35,
    "qwen35moe": QWEN35,
    "qwen3next": QWEN3_NEXT,
    "qwen3": QWEN3,
    "qwen3moe": QWEN3,
    "qwen3vl": QWEN3_VL,
    "qwen3vlmoe": QWEN3_VL,
    "llama": _LLAMA,
    "gemma3": _GEMMA3,
    "lfm2": _LFM2,
    "falcon-h1": FALCON_H1,
    "granite": GRANITE_HYBRID,
    "granitemoe": GRANITE_HYBRID,
    "granitehybrid": GRANITE_HYBRID,
    "jamba": JAMBA,
    "nemotron_h": NEMOTRON_H,
    "nemotron_h_moe": NEMOTRON_H,
}


def architecture_of(file: GGUFFile, name: str) -> Architecture:
    """Raises UnknownArchitectureError."""
    kind = file.metadata.get("general.architecture")
    found = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if found is not None:
        return found
    if kind == CLIP:
        raise UnknownArchitectureError(
            f"{name} is the part of a model that sees pictures. Choose the model's file; this one "
            "is found next to it."
        )
    named = f'"{shown(kind)}"' if isinstance(kind, str) else "not named"
    raise UnknownArchitectureError(
        f"The architecture of {name} is {named}. Of GGUF files Waymark runs: "
        f"{', '.join(ARCHITECTURES)}."
    )


def text_recipes(architecture: Architecture, settings: Settings, scope: str) -> Recipes:
    """The recipes of a text stack whose published names begin with `scope`.

    Raises WrongShapeError, UnsupportedQuantisationError.
    """
    recipes, layers = Recipes(settings), settings.num_layers
    recipes.add(scope, "", architecture.stack)
    recipes.add("", "", {"lm_head.weight": rule("output.weight")})
    for layer in range(layers):
        recipes.add(f"{scope}layers.{layer}.", f"blk.{layer}.", architecture.layer)
    if architecture.head:
        for extra in range(settings.count("nextn_predict_layers", 0)):
            ours = f"blk.{layers + extra}."
            recipes.add("mtp.", ours, architecture.head)
            recipes.add(f"mtp.layers.{extra}.", ours, architecture.layer)
    return recipes
