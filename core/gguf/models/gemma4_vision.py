"""Towers of Gemma 4: a transformer (`gemma4v`), and the unified model's embedder (`gemma4uv`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.gguf.models.recipe import Recipe, shaped, swapped
from core.gguf.models.rules import Rules, modules, rule
from core.gguf.models.settings import Config, Settings
from core.gguf.models.vision import PLACES, Projector, colours_last, pixels, scale, sizes

_TOKENS = {
    "boi_token_id": "<|image>", "image_token_id": "<|image|>", "eoi_token_id": "<image|>",
}  # fmt: skip


def _config(clip: Settings, text: Config) -> Config:
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


def _unified(clip: Settings, text: Config) -> Config:
    vision = {
        "patch_size": clip.count("vision.patch_size"),
        "pooling_kernel_size": scale(clip),
        "mm_embed_dim": clip.count("vision.embedding_length"),
        "mm_posemb_size": clip.rows(PLACES, axes=3),
        "rms_norm_eps": clip.number("vision.attention.layer_norm_epsilon", 1e-6),
    }
    return {"model_type": "gemma4_unified", "text_config": text, "vision_config": vision}


def _processor(clip: Settings) -> Config:
    return pixels(clip) | {
        "patch_size": clip.count("vision.patch_size"),
        "pooling_kernel_size": scale(clip),
    }


def _one_number(clip: Settings, recipe: Recipe) -> Recipe:
    return shaped(recipe)


def _places_first(clip: Settings, recipe: Recipe) -> Recipe:
    """[axes, places, width] as [places, axes, width]."""
    axes, places, width = recipe.shape[0], recipe.shape[1], recipe.shape[2]
    order = replace(recipe, rows=lambda count: swapped(axes, places, count))
    return replace(order, shape=(places, axes, width))


def _clipped(names: Mapping[str, str]) -> Rules:
    """Matrices with the ranges of their inputs and outputs."""
    ends = ("input_min", "input_max", "output_min", "output_max")
    ranges: Rules = {
        f"{published}.{end}": rule(f"{ours}.{end}", step=_one_number)
        for published, ours in names.items()
        for end in ends
    }
    return ranges | modules({f"{published}.linear": ours for published, ours in names.items()})


_EMBEDDER = {"embedding_projection.weight": rule("mm.input_projection.weight")}
GEMMA4 = Projector(
    frozenset({"gemma4_text"}),
    _config,
    _processor,
    {
        "model.vision_tower.": {
            "patch_embedder.input_proj.weight": rule("v.patch_embd.weight", step=colours_last),
            "patch_embedder.position_embedding_table": rule(PLACES),
            "std_bias": rule("v.std_bias"),
            "std_scale": rule("v.std_scale"),
        },
        "model.embed_vision.": _EMBEDDER,
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
GEMMA4_UNIFIED = Projector(
    frozenset({"gemma4_text"}),
    _unified,
    _processor,
    {
        "model.vision_embedder.": {
            **modules({"patch_ln1": "v.patch_norm.1"}, colours_last),
            "patch_dense.weight": rule("v.patch_embd.weight", step=colours_last),
            "patch_dense.bias": rule("v.patch_embd.bias"),
            "pos_embedding": rule(PLACES, step=_places_first),
            **modules({"patch_ln2": "v.patch_norm.2", "pos_norm": "v.patch_norm.3"}),
        },
        "model.embed_vision.": _EMBEDDER,
    },
    "",
    {},
    _TOKENS,
)
