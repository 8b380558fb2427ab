"""gpt-oss (text only, arXiv:2508.10925): sliding and full attention in turn, with sinks, and sparse
experts with clamped gates. Everything has biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field, model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import SparseExperts
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.rope import YarnSettings, rope_of
from core.models.settings import Count, Depth, Positive, TextSettings, check_layer_types
from core.weights.plan import Weights
from kernels.common.shapes import Clamp, ExpertShape, Routing

LayerType = Literal["full_attention", "sliding_attention"]
_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "truncate": False,
}

# ------------------------------------------------------------------ config


class GptOssConfig(TextSettings):
    vocab_size: Count = 201_088
    hidden_size: Count = 2880
    intermediate_size: Count = 2880  # of an expert
    num_hidden_layers: Depth = 36
    num_attention_heads: Count = 64
    num_key_value_heads: Count = 8
    head_dim: Count = 64
    max_position_embeddings: Count = 131_072
    rms_norm_eps: Positive = 1e-5
    attention_bias: bool = True
    hidden_act: Literal["silu"] = "silu"
    layer_types: tuple[LayerType, ...]
    sliding_window: Count = 128
    rope_parameters: YarnSettings
    tie_word_embeddings: bool = False
    num_local_experts: int = Field(default=128, ge=1, le=2**12)
    num_experts_per_tok: Count = 4
    swiglu_alpha: Positive = 1.702
    swiglu_limit: Positive = 7.0
    gates_first: bool = False
    """The rows of all gates come before the others: those of GGUF files."""

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        is_given = "rope_parameters" in given or "rope_scaling" in given
        rope = {"rope_theta": 150_000.0} | (rope_of(given) if is_given else _ROPE)
        layers, defaults = given.get("num_hidden_layers", 36), dict[str, Any]()
        if isinstance(layers, int) and 0 < layers <= 1024:
            defaults["layer_types"] = tuple(
                "full_attention" if layer % 2 else "sliding_attention" for layer in range(layers)
            )
        return defaults | given | {"rope_parameters": rope}

    @model_validator(mode="after")
    def _fits(self) -> GptOssConfig:
        if self.num_experts_per_tok > self.num_local_experts:
            raise ValueError('"num_experts_per_tok" is more than "num_local_experts"')
        check_layer_types(self.layer_types, self.num_hidden_layers)
        self.check_heads()
        return self

    @property
    def experts(self) -> ExpertShape:
        return ExpertShape(
            self.hidden_size,
            self.intermediate_size,
            self.num_local_experts,
            Routing(self.num_experts_per_tok),
            shared=False,
            clamp=Clamp(self.swiglu_alpha, self.swiglu_limit),
            bias=True,
        )


# ------------------------------------------------------------------ model


def _block(config: GptOssConfig, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    window = config.sliding_window if kind == "sliding_attention" else None
    attention = Attention(
        weights.scope("self_attn"),
        width,
        replace(config.attention_shape(window), sinks=True),
        bias=config.attention_bias,
        input_norm=mixer_norm.as_input,
    )
    experts = SparseExperts(
        weights.scope("mlp"),
        width,
        config.experts,
        input_norm=mlp_norm.as_input,
        router="router",
        interleaved=not config.gates_first,
    )
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), attention, experts)


def build(config: GptOssConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, rope = weights.scope("model"), config.rope_parameters
    frequencies = rope.frequencies(config.head_dim, device)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, each, kind) for each, kind in scope.layers(config.layer_types)],
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={"full_attention": RoPE(frequencies, weights.dtype, factor=rope.multiplier)},
    )


FAMILY = Family("GptOssModel", GptOssConfig, build)
