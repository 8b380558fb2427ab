"""Llama 2 and 3, Qwen3 and Qwen3 MoE (text only): pure transformers under plain RoPE. Qwen3
normalises queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, MakeFeedForward, Norms
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Experts,
    ExpertSettings,
    Positive,
    TextSettings,
    feed_forward_of,
    head_dim_of,
)
from core.weights.plan import Weights

# ------------------------------------------------------------------ config


class LlamaConfig(TextSettings):
    model_type: Literal["llama", "qwen3", "qwen3_moe"]
    vocab_size: Count
    intermediate_size: Count
    num_hidden_layers: Depth
    max_position_embeddings: Count
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    use_sliding_window: Literal[False] = False
    layer_types: tuple[Literal["full_attention"], ...] = ()
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        given = super().respell(given, values)
        heads, kind = given.get("num_attention_heads"), given.get("model_type")
        defaults = {"num_key_value_heads": heads, "max_position_embeddings": 2048}
        if kind == "qwen3":
            defaults |= {"head_dim": 128, "max_position_embeddings": 32768}
        elif kind == "qwen3_moe":
            defaults = {"num_key_value_heads": 4, "max_position_embeddings": 32768}
        return head_dim_of(given) | defaults | given | {"rope_parameters": rope_of(given)}

    @model_validator(mode="after")
    def _fits(self) -> LlamaConfig:
        self.check_heads()
        return self


class Qwen3MoeConfig(LlamaConfig, ExpertSettings):
    model_type: Literal["qwen3_moe"]
    intermediate_size: Count = 6144
    num_experts: Experts = 128
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 768
    norm_topk_prob: bool = False


# ------------------------------------------------------------------ model


def blocks(config: LlamaConfig, scope: Weights) -> list[HybridBlock]:
    make = feed_forward_of(config, bias=config.mlp_bias)
    return [_block(config, *each, make) for each in scope.layers(range(config.num_hidden_layers))]


def _block(config: LlamaConfig, weights: Weights, layer: int, make: MakeFeedForward) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    attention = Attention(
        weights.scope("self_attn"),
        width,
        config.attention_shape(),
        norm=None if config.model_type == "llama" else RMSNorm,
        epsilon=epsilon,
        bias=config.attention_bias,
        input_norm=mixer_norm.as_input,
    )
    mlp = make(weights.scope("mlp"), layer, mlp_norm.as_input)
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), attention, mlp)


def build(config: LlamaConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, width = weights.scope("model"), config.hidden_size
    frequencies = config.rope_parameters.frequencies(config.head_dim, device)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=blocks(config, scope),
        norm=RMSNorm(scope.scope("norm"), width, config.rms_norm_eps),
        ropes={"full_attention": RoPE(frequencies, weights.dtype)},
    )


FAMILY = Family("LlamaModel", LlamaConfig, build)
MOE_FAMILY = Family("Qwen3MoeModel", Qwen3MoeConfig, build)
