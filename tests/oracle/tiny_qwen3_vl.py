"""Tiny Qwen3-VL folders, made with transformers' own classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedModel,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from tests.oracle.checkpoints import VOCABULARY, image_ids, is_norm, randomise, save, write_beside

_DENSE: tuple[Any, Any] = Qwen3VLConfig, Qwen3VLForConditionalGeneration
_MOE: tuple[Any, Any] = Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration


@dataclass(frozen=True)
class TinyQwen3VL:
    """`deeper` are the tower's blocks whose features enter text layers. With
    `experts` each `sparse_step`-th layer has so many; all are dense if 0."""

    layers: int = 3
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    sections: tuple[int, int, int] = (3, 3, 2)
    tied: bool = True
    attention_bias: bool = False
    deeper: tuple[int, ...] = (0, 1)
    experts: int = 0
    top_k: int = 2
    sparse_step: int = 1
    vision_depth: int = 3
    vision_heads: int = 2
    vision_hidden: int = 32
    vision_positions: int = 36
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0


def write_qwen3_vl(path: Path, tiny: TinyQwen3VL = TinyQwen3VL()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    text: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": 48,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "max_position_embeddings": 4096,
        "attention_bias": tiny.attention_bias,
        "tie_word_embeddings": tiny.tied,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": list(tiny.sections),
            "mrope_interleaved": True,
        },
    }
    vision: dict[str, Any] = {
        "depth": tiny.vision_depth,
        "hidden_size": tiny.vision_hidden,
        "intermediate_size": 2 * tiny.vision_hidden,
        "num_heads": tiny.vision_heads,
        "out_hidden_size": tiny.hidden,
        "num_position_embeddings": tiny.vision_positions,
        "deepstack_visual_indexes": list(tiny.deeper),
    }
    if tiny.experts:
        text |= {
            "num_experts": tiny.experts,
            "num_experts_per_tok": tiny.top_k,
            "moe_intermediate_size": 24,
            "decoder_sparse_step": tiny.sparse_step,
        }
    config_type, model_type = _MOE if tiny.experts else _DENSE
    config = config_type(
        text_config=text, vision_config=vision, tie_word_embeddings=tiny.tied, **image_ids()
    )
    model: PreTrainedModel = model_type(config)
    randomise(model, tiny.seed, is_norm)
    save(model, path, tiny.dtype, tiny.max_shard_size)
    write_beside(path)
    return model
