"""Granite SWA (text only), dense and with experts: attention to the last tokens or to all.

Each head has a sink, and each layer its own RoPE or none. The numbers of config.json are those of
Granite 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.granite_hybrid import published_names, sparse_feed_forward
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Positive,
    RopeSettings,
    TextSettings,
    check_layer_types,
    head_dim_of,
    rope_of,
)
from core.weights.plan import Weights

LayerType = Literal["full_attention", "sliding_attention"]

# ------------------------------------------------------------------ config


class GraniteSwaConfig(TextSettings):
    model_type: Literal["granite_swa", "granitemoe_swa"]
    vocab_size: Count
    intermediate_size: Count  # of an expert, if there are any
    shared_intermediate_size: Index = 0
    num_hidden_layers: Depth
    max_position_embeddings: Count
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    layer_types: tuple[LayerType, ...]
    # 0 is a layer without positions.
    layer_rope_theta: tuple[Annotated[float, Field(ge=0, le=1e30)], ...]
    rope_parameters: RopeSettings = RopeSettings()
    sliding_window: Count = 128
    tie_word_embeddings: bool = False
    num_local_experts: Experts = 0
    num_experts_per_tok: Index = 2
    embedding_multiplier: Positive = 1.0
    attention_multiplier: Positive = 1.0
    residual_multiplier: Positive = 1.0
    logits_scaling: Positive = 1.0

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        defaults: dict[str, Any] = {"num_key_value_heads": given.get("num_attention_heads")}
        if given.get("model_type") == "granitemoe_swa":
            defaults |= {"num_local_experts": 8, "max_position_embeddings": 2048}
        else:
            defaults |= {
                "num_key_value_heads": 4,
                "max_position_embeddings": 8192,
                "rms_norm_eps": 1e-5,
                "tie_word_embeddings": True,
            }
            given.pop("num_local_experts", None)
        rope, layers = rope_of(given), given.get("num_hidden_layers")
        if isinstance(layers, int) and 0 < layers <= 1024:
            defaults["layer_types"] = tuple(
                "sliding_attention" if layer % 4 else "full_attention" for layer in range(layers)
            )
            defaults["layer_rope_theta"] = (rope.get("rope_theta", 10000.0),) * layers
        return head_dim_of(given) | defaults | given | {"rope_parameters": rope}

    @model_validator(mode="after")
    def _fits(self) -> GraniteSwaConfig:
        if self.num_local_experts and not 0 < self.num_experts_per_tok <= self.num_local_experts:
            raise ValueError('"num_experts_per_tok" is not 1 to "num_local_experts"')
        if len(self.layer_rope_theta) != self.num_hidden_layers:
            raise ValueError('"layer_rope_theta" does not name "num_hidden_layers" layers')
        check_layer_types(self.layer_types, self.num_hidden_layers)
        self.check_heads()
        return self


# ------------------------------------------------------------------ model


def _block(config: GraniteSwaConfig, weights: Weights, layer: int) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    slides = config.layer_types[layer] == "sliding_attention"
    theta = config.layer_rope_theta[layer]
    attention = Attention(
        weights.scope("self_attn"),
        width,
        replace(config.attention_shape(config.sliding_window if slides else None), sinks=True),
        rope=str(theta) if theta else None,
        bias=config.attention_bias,
        scale=config.attention_multiplier,
        input_norm=mixer_norm.as_input,
    )
    inner, norms = config.intermediate_size, Norms(mixer_norm, mlp_norm)
    feed_forward = (
        sparse_feed_forward(config, weights, mlp_norm.as_input)
        if config.num_local_experts
        else SwiGLU(
            weights.scope("mlp"), width, inner, bias=config.mlp_bias, input_norm=mlp_norm.as_input
        )
    )
    multipliers = (config.residual_multiplier,) * 2
    return HybridBlock(weights, width, norms, attention, feed_forward, multipliers)


def build(config: GraniteSwaConfig, weights: Weights, device: torch.device) -> Decoder:
    scope = weights.scope("model")
    ropes = {
        str(theta): config.rope_parameters.model_copy(update={"rope_theta": theta})
        for theta in config.layer_rope_theta
        if theta
    }
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[
            _block(config, scope.scope(f"layers.{layer}"), layer)
            for layer in range(config.num_hidden_layers)
        ],
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={
            name: RoPE(rope.frequencies(config.head_dim, device), weights.dtype)
            for name, rope in ropes.items()
        },
        embedding_multiplier=config.embedding_multiplier,
        logits_multiplier=1 / config.logits_scaling,
    )


FAMILY = Family("GraniteSwaModel", GraniteSwaConfig, build, published_names)
