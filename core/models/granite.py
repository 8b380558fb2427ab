"""Granite 4 and Granite SWA (text only), dense and with sparse experts beside a shared layer.
Granite 4 is mostly Mamba-2, with attention that may have no positions, or all attention under RoPE.
In Granite SWA layers attend to the last tokens or to all; each head has a sink, each layer its own
RoPE or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU, WithShared
from core.layers.mamba import Mamba2, Mamba2Form
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Mamba2Settings,
    Positive,
    TextSettings,
    check_layer_types,
    head_dim_of,
    mamba2_spelling,
)
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Routing

LayerType = Literal["linear_attention", "full_attention"]
SwaLayerType = Literal["full_attention", "sliding_attention"]
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
        _check_experts(self.num_local_experts, self.num_experts_per_tok)
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
    layer_types: tuple[SwaLayerType, ...]
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
        _check_experts(self.num_local_experts, self.num_experts_per_tok)
        if len(self.layer_rope_theta) != self.num_hidden_layers:
            raise ValueError('"layer_rope_theta" does not name "num_hidden_layers" layers')
        check_layer_types(self.layer_types, self.num_hidden_layers)
        self.check_heads()
        return self


def _check_experts(experts: int, chosen: int) -> None:
    if experts and not 0 < chosen <= experts:
        raise ValueError('"num_experts_per_tok" is not 1 to "num_local_experts"')


# ------------------------------------------------------------------ model


def _hybrid_block(config: GraniteHybridConfig, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    feed_forward = _sparse_feed_forward(config, weights, mlp_norm.as_input)
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
    norms, multipliers = Norms(mixer_norm, mlp_norm), (config.residual_multiplier,) * 2
    return HybridBlock(weights, width, norms, mixer, feed_forward, multipliers)


def _swa_block(config: GraniteSwaConfig, weights: Weights, layer: int) -> HybridBlock:
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
    scope, inner, norm = weights.scope("mlp"), config.intermediate_size, mlp_norm.as_input
    feed_forward = (
        _sparse_feed_forward(config, weights, norm)
        if config.num_local_experts
        else SwiGLU(scope, width, inner, bias=config.mlp_bias, input_norm=norm)
    )
    norms, multipliers = Norms(mixer_norm, mlp_norm), (config.residual_multiplier,) * 2
    return HybridBlock(weights, width, norms, attention, feed_forward, multipliers)


def _sparse_feed_forward(config: Any, weights: Weights, norm: InputNorm) -> FeedForward:
    """Experts and a layer for all tokens, either of which may be absent."""
    width, count = config.hidden_size, config.num_local_experts
    mlp = weights.scope("shared_mlp")
    # GGUF files have both apart, perhaps in different types.
    inner = ("gate_proj", "up_proj") if mlp.has("gate_proj.weight") else ("input_linear",)
    shared = config.shared_intermediate_size and SwiGLU(
        mlp,
        width,
        config.shared_intermediate_size,
        input_norm=norm,
        names=(*inner, "output_linear"),
    )
    if shared and not count:
        return shared
    # The experts' weights are a softmax over the chosen ones.
    routing = Routing(config.num_experts_per_tok)
    shape = ExpertShape(width, config.intermediate_size, count, routing, shared=False)
    scope = weights.scope("block_sparse_moe")
    sparse = SparseExperts(scope, width, shape, input_norm=norm, router="router")
    return WithShared(weights, width, sparse, shared) if shared else sparse


def build_hybrid(config: GraniteHybridConfig, weights: Weights, device: torch.device) -> Decoder:
    rotated = config.position_embedding_type == "rope"
    ropes = {"full_attention": config.rope_parameters} if rotated else {}
    layers = weights.scope("model").layers(config.layer_types)
    blocks = [_hybrid_block(config, *each) for each in layers]
    return _decoder(config, weights, device, blocks, ropes)


def build_swa(config: GraniteSwaConfig, weights: Weights, device: torch.device) -> Decoder:
    ropes = {
        str(theta): config.rope_parameters.model_copy(update={"rope_theta": theta})
        for theta in config.layer_rope_theta
        if theta
    }
    layers = weights.scope("model").layers(range(config.num_hidden_layers))
    return _decoder(config, weights, device, [_swa_block(config, *each) for each in layers], ropes)


def _decoder(
    config: GraniteHybridConfig | GraniteSwaConfig,
    weights: Weights,
    device: torch.device,
    blocks: list[HybridBlock],
    ropes: dict[str, RopeSettings],
) -> Decoder:
    scope = weights.scope("model")
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=blocks,
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={
            name: RoPE(rope.frequencies(config.head_dim, device), weights.dtype)
            for name, rope in ropes.items()
        },
        embedding_multiplier=config.embedding_multiplier,
        logits_multiplier=1 / config.logits_scaling,
    )


# Published names of the tensors that other families spell alike.
_SPELLINGS = {
    "block_sparse_moe.experts.gate_up_proj": "block_sparse_moe.input_linear.weight",
    "block_sparse_moe.experts.down_proj": "block_sparse_moe.output_linear.weight",
    "block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight",
}


def _published_names(config: Any, found: Collection[str]) -> Callable[[str], str]:
    def published(name: str) -> str:
        for ours, theirs in _SPELLINGS.items():
            other = name.replace(ours, theirs)
            if name.endswith(ours) and name not in found and other in found:
                return other
        return name

    return published


HYBRID_FAMILY = Family("GraniteHybridModel", GraniteHybridConfig, build_hybrid, _published_names)
SWA_FAMILY = Family("GraniteSwaModel", GraniteSwaConfig, build_swa, _published_names)
