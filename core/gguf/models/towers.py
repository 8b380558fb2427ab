"""The towers that are read, by their `clip.projector_type`. Names of a picture's tokens, and limits
of its size that no key has, are the releases'."""

from __future__ import annotations

import math

from core.gguf.models.gemma import GEMMA4_TOWER, UNIFIED_TOWER
from core.gguf.models.rules import Rule, modules, rule, zero_centred
from core.gguf.models.settings import Config, Settings
from core.gguf.models.vision import (
    PLACES,
    Projector,
    colours_last,
    deeper_blocks,
    pixels,
    scale,
    sizes,
)

# Pixels of a picture in the releases of Qwen3-VL and Qwen3.5.
_QWEN_PIXELS = (65_536, 16_777_216)

# ------------------------------------------------------------------ Qwen3-VL and Qwen3.5


def _qwen(clip: Settings, text: Config) -> Config:
    vision = sizes(clip) | {
        "depth": clip.count("vision.block_count"),
        "num_heads": clip.count("vision.attention.head_count"),
        "out_hidden_size": clip.count("vision.projection_dim"),
        "spatial_merge_size": clip.count("vision.spatial_merge_size", 2),
        "num_position_embeddings": clip.rows(PLACES),
        "deepstack_visual_indexes": deeper_blocks(clip),
    }
    return text | {"vision_config": vision}


def _qwen_processor(clip: Settings) -> Config:
    least, most = _QWEN_PIXELS
    return pixels(clip) | {
        "patch_size": clip.count("vision.patch_size"),
        "merge_size": clip.count("vision.spatial_merge_size", 2),
        "min_pixels": clip.count("vision.image_min_pixels", least),
        "max_pixels": clip.count("vision.image_max_pixels", most),
    }


_QWEN = Projector(
    frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}),
    _qwen,
    _qwen_processor,
    {
        "model.visual.": {
            "patch_embed.proj.weight": Rule(
                ("v.patch_embd.weight", "v.patch_embd.weight.1"), joined=2, new_axis=True
            ),
            "patch_embed.proj.bias": rule("v.patch_embd.bias"),
            "pos_embed.weight": rule("v.position_embd.weight"),
            **modules({
                "merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0",
                "merger.linear_fc2": "mm.2",
            }),
        }
    },
    "model.visual.blocks",
    modules({
        "norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
        "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
    }),
    {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    },
    deeper="model.visual.deepstack_merger_list",
)  # fmt: skip
# ------------------------------------------------------------------ SigLIP: Gemma 3 and LFM2-VL

_SIGLIP = modules({
    "layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out",
    "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
})  # fmt: skip
_EMBEDDINGS = {
    "embeddings.patch_embedding.weight": rule("v.patch_embd.weight"),
    "embeddings.patch_embedding.bias": rule("v.patch_embd.bias"),
    "embeddings.position_embedding.weight": rule("v.position_embd.weight"),
    **modules({"post_layernorm": "v.post_ln"}),
}


def _siglip(clip: Settings) -> Config:
    return sizes(clip) | {
        "num_hidden_layers": clip.count("vision.block_count"),
        "num_attention_heads": clip.count("vision.attention.head_count"),
        "layer_norm_eps": clip.number("vision.attention.layer_norm_epsilon", 1e-6),
    }


def _gemma3(clip: Settings, text: Config) -> Config:
    vision = _siglip(clip) | {"image_size": clip.count("vision.image_size")}
    side = vision["image_size"] // max(1, vision["patch_size"]) // max(1, scale(clip))
    return {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": vision,
        "mm_tokens_per_image": side**2,
    }


def _gemma3_processor(clip: Settings) -> Config:
    size = clip.count("vision.image_size")
    return pixels(clip) | {"size": {"height": size, "width": size}}


def _lfm2(clip: Settings, text: Config) -> Config:
    return {
        "model_type": "lfm2_vl",
        "text_config": text,
        "vision_config": _siglip(clip) | {"num_patches": clip.rows(PLACES)},
        "downsample_factor": scale(clip),
        "projector_hidden_size": clip.rows("mm.1.weight"),
        "projector_bias": "mm.1.bias" in clip.tensors,
        "projector_use_layernorm": "mm.input_norm.weight" in clip.tensors,
        "tie_word_embeddings": text["tie_word_embeddings"],
    }


def _lfm2_processor(clip: Settings) -> Config:
    return pixels(clip) | {
        "encoder_patch_size": clip.count("vision.patch_size"),
        "downsample_factor": scale(clip),
    }


_GEMMA3 = Projector(
    frozenset({"gemma3_text"}),
    _gemma3,
    _gemma3_processor,
    {
        "vision_tower.vision_model.": _EMBEDDINGS,
        "multi_modal_projector.": {
            "mm_input_projection_weight": rule("mm.input_projection.weight"),
            "mm_soft_emb_norm.weight": rule("mm.soft_emb_norm.weight", step=zero_centred),
        },
    },
    "vision_tower.vision_model.encoder.layers",
    _SIGLIP,
    {
        "boi_token_index": "<start_of_image>",
        "image_token_index": "<image_soft_token>",
        "eoi_token_index": "<end_of_image>",
    },
)
_PATCHES = "embeddings.patch_embedding.weight"
_LFM2 = Projector(
    frozenset({"lfm2"}),
    _lfm2,
    _lfm2_processor,
    {
        "model.vision_tower.": {
            **_EMBEDDINGS,
            _PATCHES: rule("v.patch_embd.weight", step=colours_last),
        },
        "model.multi_modal_projector.": modules({
            "layer_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2",
        }),
    },
    "model.vision_tower.encoder.layers",
    _SIGLIP,
    {"image_token_id": "<image>"},
    text_scope="model.language_model.",
)  # fmt: skip

# ------------------------------------------------------------------ MiniCPM-V 4.6


def _minicpm(clip: Settings, text: Config) -> Config:
    patch = clip.count("vision.patch_size")
    vision = _siglip(clip) | {"image_size": math.isqrt(clip.rows(PLACES)) * patch}
    return text | {
        "model_type": "minicpmv4_6",
        "vision_config": vision,
        "insert_layer_id": clip.each("vision.wa_layer_indexes", 1, 6)[0],
        "downsample_mode": {4: "16x", 2: "4x"}.get(scale(clip)),
    }


def _minicpm_processor(clip: Settings) -> Config:
    return pixels(clip) | {
        "patch_size": clip.count("vision.patch_size"),
        "scale_resolution": clip.count("vision.image_size"),
    }


_MINICPM = Projector(
    frozenset({"qwen3_5"}),
    _minicpm,
    _minicpm_processor,
    {
        "model.vision_tower.": {
            **_EMBEDDINGS,
            **modules({
                f"vit_merger.{published}": f"v.vit_merger.{ours}"
                for published, ours in {
                    "layer_norm1": "ln1", "self_attn.q_proj": "attn_q",
                    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                    "self_attn.out_proj": "attn_out", "pre_norm": "ds_ln",
                    "linear_1": "ds_ffn_up", "linear_2": "ds_ffn_down",
                }.items()
            }),
        },
        "model.merger.mlp.0.": modules({
            "pre_norm": "mm.input_norm", "linear_1": "mm.up", "linear_2": "mm.down",
        }),
    },
    "model.vision_tower.encoder.layers",
    _SIGLIP,
    {"image_token_id": "<|image_pad|>"},
)  # fmt: skip

# ------------------------------------------------------------------ all

PROJECTORS = {
    "qwen3vl_merger": _QWEN,
    "gemma3": _GEMMA3,
    "gemma4v": GEMMA4_TOWER,
    "gemma4uv": UNIFIED_TOWER,
    "lfm2": _LFM2,
    "minicpmv4_6": _MINICPM,
}
