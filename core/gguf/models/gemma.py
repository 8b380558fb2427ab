"""Gemma 3 and Gemma 4, and Gemma 4's towers: a transformer, and the unified model's embedder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.api.errors import BrokenConfigError
from core.gguf.models.recipe import Recipe, shaped, swapped
from core.gguf.models.rules import (
    ATTENTION,
    MLP,
    QK_NORMS,
    STACK,
    Architecture,
    Rule,
    experts,
    modules,
    rule,
    stack,
    zero_centred,
)
from core.gguf.models.settings import Config, Settings, rotary_share
from core.gguf.models.vision import PLACES, Projector, colours_last, pixels, scale, sizes

# What `rope_freqs` divides the frequencies by that don't rotate.
_STILL = 1e30


def _kinds(sliding: list[int]) -> list[str]:
    return ["sliding_attention" if each else "full_attention" for each in sliding]


# ------------------------------------------------------------------ Gemma 3


def _gemma3(settings: Settings) -> Config:
    layers, pattern = settings.num_layers, "attention.sliding_window_pattern"
    text = settings.common(head_dim=256)
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    period = settings.count(pattern, 6) if not settings.is_list(pattern) else 0
    sliding = (
        [(layer + 1) % period for layer in range(layers)]
        if period
        else settings.each(pattern, layers)
    )
    # Ollama's files lack the scaling of all releases with so long a context, and one has a limit of
    # logits that its release hasn't.
    of_ollama = "mm.tokens_per_image" in settings or "rope.local.freq_base" in settings
    full_rope = settings.rope(default=1_000_000.0)
    lacks_scaling = of_ollama and "rope.scaling.type" not in settings
    if lacks_scaling and text["max_position_embeddings"] >= 131_072:
        full_rope |= {"rope_type": "linear", "factor": 8.0}
    # The largest release alone scales scores by another number, which the file doesn't have.
    scale = hidden // max(1, heads) if layers == 62 else text["head_dim"]
    text |= {
        "layer_types": _kinds(sliding),
        "sliding_window": settings.count("attention.sliding_window", 4096),
        "query_pre_attn_scalar": float(scale),
        "rope_parameters": {
            "full_attention": full_rope,
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": settings.number("rope.freq_base_swa", 10000.0),
            },
        },
    }
    if not of_ollama and "final_logit_softcapping" in settings:
        text["final_logit_softcapping"] = settings.number("final_logit_softcapping")
    return text | {"model_type": "gemma3_text"}


GEMMA3 = Architecture(
    _gemma3,
    "language_model.model.",
    stack(step=zero_centred),
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

# ------------------------------------------------------------------ Gemma 4


def _gemma4(settings: Settings) -> Config:
    layers = settings.num_layers
    kinds = _kinds(settings.each("attention.sliding_window_pattern", layers))
    shared = settings.count("attention.shared_kv_layers", 0)
    widths = settings.each("feed_forward_length", layers)
    size = settings.count("embedding_length_per_layer_input", 0)
    text = settings.common()
    heads = dict(zip(kinds, settings.kv_heads, strict=True))
    full_heads = heads.get("full_attention", text["num_key_value_heads"])
    return text | _experts(settings) | {
        "model_type": "gemma4_text",
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] == 2 * widths[0],
        "layer_types": kinds,
        "head_dim": settings.head_dim_or(text["head_dim"], "_swa"),
        "global_head_dim": text["head_dim"],
        "num_key_value_heads": heads.get("sliding_attention", full_heads),
        "num_global_key_value_heads": full_heads,
        "attention_k_eq_v": _reuses_keys(settings, kinds[: max(0, layers - shared)]),
        "num_kv_shared_layers": shared,
        "sliding_window": settings.count("attention.sliding_window"),
        "rope_parameters": _ropes(settings, text["head_dim"]),
        "final_logit_softcapping": settings.number("final_logit_softcapping", 0.0) or None,
        "pad_token_id": settings.metadata.get("tokenizer.ggml.padding_token_id", 0),
        "hidden_size_per_layer_input": size,
        "vocab_size_per_layer_input": (
            settings.rows("per_layer_token_embd.weight") if size else text["vocab_size"]
        ),
        # No key says so: pictures are causal in the small releases alone.
        "use_bidirectional_attention": None if size else "vision",
    }  # fmt: skip


def _experts(settings: Settings) -> Config:
    count = settings.count("expert_count", 0)
    return {
        "enable_moe_block": count > 0,
        "num_experts": count,
        "top_k_experts": settings.count("expert_used_count", 0),
        "moe_intermediate_size": settings.count("expert_feed_forward_length", 0),
    }


def _reuses_keys(settings: Settings, kinds: list[str]) -> bool:
    """True if full layers, of those with keys of their own, have no values."""
    full = {layer for layer, kind in enumerate(kinds) if kind == "full_attention"}
    found = (settings.layers_with(f"attn_{each}.weight") for each in ("v", "qkv"))
    lacking = full.difference(*found)
    if lacking and lacking != full:
        raise BrokenConfigError(f"{settings.name} lacks the values of some full layers.")
    return bool(lacking)


def _ropes(settings: Settings, head_dim: int) -> Config:
    settings.check_rotates_all(head_dim)
    settings.check_rotates_all(settings.head_dim_or(head_dim, "_swa"), "_swa")
    divisors, rope = settings.divisors(), settings.rope(default=1_000_000.0)
    rotated, pairs = divisors.count(1.0), head_dim // 2
    still = divisors[rotated:]
    if len(divisors) != pairs or 1.0 in still or any(each < _STILL for each in still):
        raise BrokenConfigError(
            f"{settings.name}: rope_freqs.weight doesn't rotate the first of {pairs} pairs."
        )
    if rope["rope_type"] == "default":
        share = rotary_share(2 * rotated, head_dim)
        rope |= {"rope_type": "proportional", "partial_rotary_factor": share}
    theta = settings.number("rope.freq_base_swa", 10000.0)
    sliding = {"rope_type": "default", "rope_theta": theta}
    return {"full_attention": rope, "sliding_attention": sliding}


GEMMA4 = Architecture(
    _gemma4,
    "model.language_model.",
    STACK
    | {
        "embed_tokens_per_layer.weight": rule("per_layer_token_embd.weight"),
        "per_layer_model_projection.weight": rule("per_layer_model_proj.weight"),
        "per_layer_projection_norm.weight": rule("per_layer_proj_norm.weight"),
    },
    {
        **ATTENTION,
        **MLP,
        **modules(QK_NORMS),
        **modules({
            "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
            "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
            "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
            "post_feedforward_layernorm_1": "post_ffw_norm_1",
            "post_feedforward_layernorm_2": "post_ffw_norm_2",
            "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
            "post_per_layer_input_norm": "post_norm",
        }),
        **experts("experts"),
        # Its file calls the router's norm and the factors of experts scales of their matrices.
        "experts.down_proj": Rule(("ffn_down_exps.weight",), scaled=False),
        "router.proj.weight": Rule(("ffn_gate_inp.weight",), scaled=False),
        "router.scale": rule("ffn_gate_inp.scale"),
        "router.per_expert_scale": rule("ffn_down_exps.scale"),
        "layer_scalar": rule("layer_output_scale.weight"),
    },
)  # fmt: skip

# ------------------------------------------------------------------ Gemma 4's towers

_TOKENS = {
    "boi_token_id": "<|image>", "image_token_id": "<|image|>", "eoi_token_id": "<image|>",
}  # fmt: skip


def _gemma4_tower(clip: Settings, text: Config) -> Config:
    heads = clip.count("vision.attention.head_count")
    vision = sizes(clip) | {
        "num_hidden_layers": clip.count("vision.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": clip.rows("v.blk.0.attn_q.weight") // max(1, heads),
        "rms_norm_eps": clip.number("vision.attention.layer_norm_epsilon", 1e-6),
        "pooling_kernel_size": scale(clip),
        "position_embedding_size": clip.rows(PLACES, axes=3),
        "use_clipped_linears": "v.blk.0.attn_q.input_max" in clip.tensors,
        "standardize": "v.std_bias" in clip.tensors,
    }
    return {"model_type": "gemma4", "text_config": text, "vision_config": vision}


def _unified_tower(clip: Settings, text: Config) -> Config:
    vision = {
        "patch_size": clip.count("vision.patch_size"),
        "pooling_kernel_size": scale(clip),
        "mm_embed_dim": clip.count("vision.embedding_length"),
        "mm_posemb_size": clip.rows(PLACES, axes=3),
        "rms_norm_eps": clip.number("vision.attention.layer_norm_epsilon", 1e-6),
    }
    return {"model_type": "gemma4_unified", "text_config": text, "vision_config": vision}


def _gemma4_processor(clip: Settings) -> Config:
    return pixels(clip) | {
        "patch_size": clip.count("vision.patch_size"),
        "pooling_kernel_size": scale(clip),
    }


def _places_first(clip: Settings, recipe: Recipe) -> Recipe:
    """[axes, places, width] as [places, axes, width]."""
    axes, places, width = recipe.shape[0], recipe.shape[1], recipe.shape[2]
    order = replace(recipe, rows=lambda count: swapped(axes, places, count))
    return replace(order, shape=(places, axes, width))


def _clipped(names: Mapping[str, str]) -> dict[str, Rule]:
    ends = ("input_min", "input_max", "output_min", "output_max")
    ranges = {
        f"{published}.{end}": rule(f"{ours}.{end}", step=lambda clip, number: shaped(number))
        for published, ours in names.items()
        for end in ends
    }
    return ranges | modules({f"{published}.linear": ours for published, ours in names.items()})


_PROJECTION = {"embedding_projection.weight": rule("mm.input_projection.weight")}
GEMMA4_TOWER = Projector(
    frozenset({"gemma4_text"}),
    _gemma4_tower,
    _gemma4_processor,
    {
        "model.vision_tower.": {
            "patch_embedder.input_proj.weight": rule("v.patch_embd.weight", step=colours_last),
            "patch_embedder.position_embedding_table": rule(PLACES),
            "std_bias": rule("v.std_bias"),
            "std_scale": rule("v.std_scale"),
        },
        "model.embed_vision.": _PROJECTION,
    },
    "model.vision_tower.encoder.layers",
    {
        **_clipped({
            "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_out",
            "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        }),
        **modules({
            "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
            "input_layernorm": "ln1", "post_attention_layernorm": "attn_post_norm",
            "pre_feedforward_layernorm": "ln2", "post_feedforward_layernorm": "ffn_post_norm",
        }),
    },
    _TOKENS,
)  # fmt: skip
UNIFIED_TOWER = Projector(
    frozenset({"gemma4_text"}),
    _unified_tower,
    _gemma4_processor,
    {
        "model.vision_embedder.": {
            **modules({"patch_ln1": "v.patch_norm.1"}, colours_last),
            "patch_dense.weight": rule("v.patch_embd.weight", step=colours_last),
            "patch_dense.bias": rule("v.patch_embd.bias"),
            "pos_embedding": rule(PLACES, step=_places_first),
            **modules({"patch_ln2": "v.patch_norm.2", "pos_norm": "v.patch_norm.3"}),
        },
        "model.embed_vision.": _PROJECTION,
    },
    "",
    {},
    _TOKENS,
)
