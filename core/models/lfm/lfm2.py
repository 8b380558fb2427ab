"""LFM2 and LFM2-MoE (text only): mostly gated short convolutions, the other layers attention.
LFM2-MoE has sparse experts in all blocks but the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.layers.short_conv import ShortConv
from core.models.decoder import Decoder, Family, Tower
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Positive,
    Taps,
    TextSettings,
    check_layer_types,
    head_dim_of,
)
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Routing, ShortConvShape

LayerType = Literal["conv", "full_attention"]
_THETA = 1_000_000.0

# ------------------------------------------------------------------ config


class Lfm2Config(TextSettings):
    vocab_size: Count = 65_536
    intermediate_size: Count = 12_288
    num_hidden_layers: Depth = 32
    num_key_value_heads: Count = 8
    max_position_embeddings: Count = 128_000
    norm_eps: Positive = 1e-5
    conv_bias: bool = False
    conv_L_cache: Taps = 3  # noqa: N815 - as config.json spells it
    block_multiple_of: Count = 256
    block_ffn_dim_multiplier: Positive = 1.0
    block_auto_adjust_ff_dim: bool = True
    layer_types: tuple[LayerType, ...] = ()
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = True

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        older = {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}
        given |= {newer: given[key] for key, newer in older.items() if key in given}
        given = {"hidden_size": 2_560, "num_attention_heads": 32} | given
        if "layer_types" not in given:
            given["layer_types"] = _types(given)
        rope = {"rope_theta": _THETA} | rope_of(given)
        return head_dim_of(given) | given | {"rope_parameters": rope}

    @model_validator(mode="after")
    def _fits(self) -> Lfm2Config:
        self.check_heads()
        check_layer_types(self.layer_types, self.num_hidden_layers)
        if not 1 <= self.mlp_width <= 2**24:
            raise ValueError('"block_ffn_dim_multiplier" makes MLPs of no width, or of too much')
        return self

    @property
    def mlp_width(self) -> int:
        """By default two thirds of the given width, rounded up."""
        if not self.block_auto_adjust_ff_dim:
            return self.intermediate_size
        width = int(self.block_ffn_dim_multiplier * int(2 * self.intermediate_size / 3))
        return -(-width // self.block_multiple_of) * self.block_multiple_of

    def feed_forward(self, weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        return SwiGLU(weights, self.hidden_size, self.mlp_width, input_norm=norm)


def _types(given: Mapping[str, Any]) -> list[LayerType]:
    """The layers of a file that lists the attention layers by index; without a list, all are."""
    count = given.get("num_hidden_layers", 32)
    if not isinstance(count, int) or not 0 < count <= 1024:
        return []  # the count is refused by itself
    full = given.get("full_attn_idxs", list(range(count)))
    if not isinstance(full, list):
        raise ValueError('"full_attn_idxs" is not a list')
    return ["full_attention" if index in full else "conv" for index in range(count)]


# ------------------------------------------------------------------ model


def _block(config: Lfm2Config, weights: Weights, layer: int) -> HybridBlock:
    width, epsilon = config.hidden_size, config.norm_eps
    mixer_norm = RMSNorm(weights.scope("operator_norm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("ffn_norm"), width, epsilon)
    mlp = config.feed_forward(weights.scope("feed_forward"), layer, mlp_norm.as_input)
    input_norm = mixer_norm.as_input
    mixer: Mixer
    if config.layer_types[layer] == "conv":
        shape = ShortConvShape(width, config.conv_L_cache)
        scope, bias = weights.scope("conv"), config.conv_bias
        mixer = ShortConv(scope, shape, bias=bias, input_norm=input_norm)
    else:
        mixer = Attention(
            weights.scope("self_attn"),
            width,
            config.attention_shape(),
            norm=RMSNorm,
            epsilon=epsilon,
            input_norm=input_norm,
        )
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), mixer, mlp)


def decoder(
    config: Lfm2Config,
    weights: Weights,
    scope: Weights,
    device: torch.device,
    tied: bool,
    tower: Tower | None = None,
) -> Decoder:
    frequencies = config.rope_parameters.frequencies(config.head_dim, device)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=tied,
        blocks=[_block(config, *each) for each in scope.layers(range(config.num_hidden_layers))],
        norm=RMSNorm(scope.scope("embedding_norm"), config.hidden_size, config.norm_eps),
        ropes={"full_attention": RoPE(frequencies, scope.dtype)},
        tower=tower,
    )


def build(config: Lfm2Config, weights: Weights, device: torch.device) -> Decoder:
    return decoder(config, weights, weights.scope("model"), device, config.tie_word_embeddings)


# ------------------------------------------------------------------ names

# Names that the shared layers ask for, and this family's names for them.
_NAMES = {
    "feed_forward.gate_proj": "feed_forward.w1",
    "feed_forward.up_proj": "feed_forward.w3",
    "feed_forward.down_proj": "feed_forward.w2",
    "self_attn.o_proj": "self_attn.out_proj",
    "self_attn.q_norm": "self_attn.q_layernorm",
    "self_attn.k_norm": "self_attn.k_layernorm",
    # Of an expert, and of all experts of a layer.
    "gate_proj": "w1",
    "up_proj": "w3",
    "down_proj": "w2",
    "feed_forward.gate.e_score_correction_bias": "feed_forward.expert_bias",
}
_SHARED = re.compile(r"(?<=\d\.)(?:{})(?=\.|$)".format("|".join(map(re.escape, _NAMES))))


def published_name(name: str) -> str:
    return _SHARED.sub(lambda found: _NAMES[found[0]], name)


def published_names(config: Lfm2Config, found: Collection[str]) -> Callable[[str], str]:
    return published_name


FAMILY = Family("Lfm2Model", Lfm2Config, build, published_names)


# ------------------------------------------------------------------ sparse experts


class Lfm2MoeConfig(Lfm2Config):
    """The first `num_dense_layers` blocks have an MLP of `intermediate_size`, unadjusted."""

    intermediate_size: Count = 7_168
    num_dense_layers: Index = 2
    num_experts: Experts = 32
    num_experts_per_tok: Count = 4
    moe_intermediate_size: Count = 1_792
    use_expert_bias: Literal[True] = True
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 1.0

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return super().respell({"hidden_size": 2_048} | given, values)

    @model_validator(mode="after")
    def _enough_experts(self) -> Lfm2MoeConfig:
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self

    @property
    def mlp_width(self) -> int:
        return self.intermediate_size

    @property
    def routing(self) -> Routing:
        return Routing(
            k=self.num_experts_per_tok,
            normalise=self.norm_topk_prob,
            sigmoid=True,
            scale=self.routed_scaling_factor,
        )

    def feed_forward(self, weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        if layer < self.num_dense_layers:
            return super().feed_forward(weights, layer, norm)
        width, inner = self.hidden_size, self.moe_intermediate_size
        shape = ExpertShape(width, inner, self.num_experts, self.routing, shared=False)
        return SparseExperts(weights, width, shape, input_norm=norm)


MOE_FAMILY = Family("Lfm2MoeModel", Lfm2MoeConfig, build, published_names)
