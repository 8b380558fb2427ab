"""Jamba (text only): mostly Mamba-1, some attention without positions; some blocks have experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU
from core.layers.mamba import Mamba1
from core.layers.norm import RMSNorm
from core.models.decoder import Decoder, Family
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Positive,
    Taps,
    TextSettings,
    head_dim_of,
)
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Mamba1Shape, Routing

# ------------------------------------------------------------------ config


class JambaConfig(TextSettings):
    vocab_size: Count = 65536
    hidden_size: Count = 4096
    intermediate_size: Count = 14336
    num_hidden_layers: Depth = 32
    num_attention_heads: Count = 32
    max_position_embeddings: Count = 262144
    hidden_act: Literal["silu"] = "silu"
    rms_norm_eps: Positive = 1e-6
    tie_word_embeddings: bool = False
    attn_layer_period: Depth = 8
    attn_layer_offset: Index = 4
    num_experts: Experts = 16
    num_experts_per_tok: Count = 2
    expert_layer_period: Depth = 2
    expert_layer_offset: Index = 1
    mamba_d_state: Count = 16
    mamba_d_conv: Taps = 4
    mamba_expand: Count = 2
    mamba_dt_rank: Count
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    mamba_inner_layernorms: Literal[True] = True

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if "num_local_experts" in given:
            given.setdefault("num_experts", given["num_local_experts"])
        if given.get("mamba_dt_rank") == "auto":
            del given["mamba_dt_rank"]
        # In transformers a null is all heads and a missing key 8.
        sizes = {"hidden_size": 4096, "num_attention_heads": 32, **values}
        key_heads = sizes["num_attention_heads"] if "num_key_value_heads" in values else 8
        defaults = {"num_key_value_heads": key_heads} | head_dim_of(sizes)
        if "head_dim" in defaults:
            defaults["mamba_dt_rank"] = -(-sizes["hidden_size"] // 16)
        return defaults | given

    @model_validator(mode="after")
    def _fits(self) -> JambaConfig:
        self.check_heads(rotated=False)
        if self.attn_layer_offset >= self.attn_layer_period:
            raise ValueError('"attn_layer_offset" is not below "attn_layer_period"')
        if self.expert_layer_offset >= self.expert_layer_period:
            raise ValueError('"expert_layer_offset" is not below "expert_layer_period"')
        if self.num_experts != 1 and self.num_experts < self.num_experts_per_tok:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self


# ------------------------------------------------------------------ model


def _block(config: JambaConfig, weights: Weights, layer: int) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("pre_ff_layernorm"), width, epsilon)
    mlp = _feed_forward(config, weights.scope("feed_forward"), layer, mlp_norm.as_input)
    mixer: Mixer
    if layer % config.attn_layer_period == config.attn_layer_offset:
        scope, shape = weights.scope("self_attn"), config.attention_shape()
        mixer = Attention(scope, width, shape, rope=None, input_norm=mixer_norm.as_input)
    else:
        mixer = Mamba1(
            weights.scope("mamba"),
            width,
            Mamba1Shape(config.mamba_expand * width, config.mamba_d_state, config.mamba_d_conv),
            config.mamba_dt_rank,
            epsilon,
            conv_bias=config.mamba_conv_bias,
            bias=config.mamba_proj_bias,
            input_norm=mixer_norm.as_input,
        )
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), mixer, mlp)


def _feed_forward(
    config: JambaConfig, weights: Weights, layer: int, norm: InputNorm
) -> FeedForward:
    width, inner, count = config.hidden_size, config.intermediate_size, config.num_experts
    if count > 1 and layer % config.expert_layer_period == config.expert_layer_offset:
        routing = Routing(config.num_experts_per_tok, normalise=False)
        shape = ExpertShape(width, inner, count, routing, shared=False)
        return SparseExperts(weights, width, shape, input_norm=norm, router="router")
    return SwiGLU(weights, width, inner, input_norm=norm)


def build(config: JambaConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, width, layers = weights.scope("model"), config.hidden_size, config.num_hidden_layers
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, *each) for each in scope.layers(range(layers))],
        norm=RMSNorm(scope.scope("final_layernorm"), width, config.rms_norm_eps),
        ropes={},
    )


FAMILY = Family("JambaModel", JambaConfig, build)
