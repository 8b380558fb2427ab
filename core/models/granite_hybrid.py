"""Granite 4 (text only): mostly Mamba-2; attention, in some releases without positions.

In the smallest releases every layer is attention under RoPE. Larger ones have sparse experts next
to a feed-forward layer in every block. Numbers in config.json multiply embeddings, what each block
adds, and scores, and divide the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU, WithShared
from core.layers.mamba import Mamba2, Mamba2Form
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Mamba2Settings,
    Positive,
    RopeSettings,
    TextSettings,
    check_layer_types,
    head_dim_of,
    mamba2_spelling,
    rope_of,
)
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Routing

LayerType = Literal["linear_attention", "full_attention"]
_OLDER_NAMES = {"mamba": "linear_attention", "attention": "full_attention"}

# ------------------------------------------------------------------ config


class GraniteHybridConfig(Mamba2Settings, TextSettings):
    vocab_size: Count
    intermediate_size: Count = 11008  # of an expert
    shared_intermediate_size: Count = 1024
    num_hidden_layers: Depth
    max_position_embeddings: Count = 2048
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    layer_types: tuple[LayerType, ...]
    position_embedding_type: Literal["rope", "nope"] = "nope"
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False
    num_local_experts: Experts = 8
    num_experts_per_tok: Index = 2
    mamba_expand: Count = 2
    embedding_multiplier: Positive = 1.0
    attention_multiplier: Positive = 1.0
    residual_multiplier: Positive = 1.0
    logits_scaling: Positive = 1.0

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        defaults = head_dim_of(given) | {"num_key_value_heads": given.get("num_attention_heads")}
        layers = given.get("num_hidden_layers")
        if isinstance(layers, int) and 0 < layers <= 1024:
            defaults["layer_types"] = ("linear_attention",) * layers
        types = given.get("layer_types", given.get("layers_block_type"))
        if isinstance(types, list):
            given["layer_types"] = [_OLDER_NAMES.get(str(each), each) for each in types]
        hidden, expand = given.get("hidden_size"), given.get("mamba_expand", 2)
        width = expand * hidden if isinstance(hidden, int) and isinstance(expand, int) else None
        mamba = mamba2_spelling(given, width)
        return defaults | given | mamba | {"rope_parameters": rope_of(given)}

    @model_validator(mode="after")
    def _fits(self) -> GraniteHybridConfig:
        if self.num_local_experts and not 0 < self.num_experts_per_tok <= self.num_local_experts:
            raise ValueError('"num_experts_per_tok" is not 1 to "num_local_experts"')
        check_layer_types(self.layer_types, self.num_hidden_layers)
        self.check_heads()
        self.check_mamba(self.mamba_expand * self.hidden_size)
        return self

    @property
    def mamba_form(self) -> Mamba2Form:
        return Mamba2Form(
            epsilon=self.rms_norm_eps,
            norm_groups=self.mamba_n_groups,
            conv_bias=self.mamba_conv_bias,
            projection_bias=self.mamba_proj_bias,
            output_bias=self.mamba_proj_bias,
            limits=self.time_step_limit,
        )


# ------------------------------------------------------------------ model


def _block(config: GraniteHybridConfig, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    feed_forward = sparse_feed_forward(config, weights, mlp_norm.as_input)
    input_norm = mixer_norm.as_input
    mixer: Mixer
    if kind == "linear_attention":
        scope = weights.scope("mamba")
        mixer = Mamba2(scope, width, config.mamba_shape, config.mamba_form, input_norm)
    else:
        mixer = Attention(
            weights.scope("self_attn"),
            width,
            config.attention_shape(),
            rope="full_attention" if config.position_embedding_type == "rope" else None,
            bias=config.attention_bias,
            scale=config.attention_multiplier,
            input_norm=input_norm,
        )
    multipliers = (config.residual_multiplier,) * 2
    return HybridBlock(
        weights, width, Norms(mixer_norm, mlp_norm), mixer, feed_forward, multipliers
    )


def sparse_feed_forward(config: Any, weights: Weights, norm: InputNorm) -> FeedForward:
    """Experts and a layer for all tokens, either of which may be absent."""
    width, count = config.hidden_size, config.num_local_experts
    shared = config.shared_intermediate_size and SwiGLU(
        weights.scope("shared_mlp"),
        width,
        config.shared_intermediate_size,
        input_norm=norm,
        names=("input_linear", "output_linear"),
    )
    if shared and not count:
        return shared
    # The experts' weights are a softmax over the chosen ones.
    routing = Routing(config.num_experts_per_tok)
    shape = ExpertShape(width, config.intermediate_size, count, routing, shared=False)
    scope = weights.scope("block_sparse_moe")
    sparse = SparseExperts(scope, width, shape, input_norm=norm, router="router")
    return WithShared(weights, width, sparse, shared) if shared else sparse


def build(config: GraniteHybridConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, width = weights.scope("model"), config.hidden_size
    rope = RoPE(config.rope_parameters.frequencies(config.head_dim, device), weights.dtype)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, *each) for each in scope.layers(config.layer_types)],
        norm=RMSNorm(scope.scope("norm"), width, config.rms_norm_eps),
        ropes={"full_attention": rope} if config.position_embedding_type == "rope" else {},
        embedding_multiplier=config.embedding_multiplier,
        logits_multiplier=1 / config.logits_scaling,
    )


# ------------------------------------------------------------------ names

# Published names of the tensors that other families spell alike.
_SPELLINGS = {
    "block_sparse_moe.experts.gate_up_proj": "block_sparse_moe.input_linear.weight",
    "block_sparse_moe.experts.down_proj": "block_sparse_moe.output_linear.weight",
    "block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight",
}


def published_names(config: Any, found: Collection[str]) -> Callable[[str], str]:
    def published(name: str) -> str:
        for ours, theirs in _SPELLINGS.items():
            other = name.replace(ours, theirs)
            if name.endswith(ours) and name not in found and other in found:
                return other
        return name

    return published


FAMILY = Family("GraniteHybridModel", GraniteHybridConfig, build, published_names)
