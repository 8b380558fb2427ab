"""Qwen3.5 (also 3.6 and 3.8), dense and with sparse experts, and its predecessor Qwen3-Next: gated
delta nets, and gated attention in every fourth layer, rotated by interleaved M-RoPE. A picture
attends as text does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, MakeFeedForward, Mixer, Norms
from core.layers.gated_deltanet import GatedDeltaNet
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import InterleavedMRoPE
from core.models.decoder import MTP_MARK, MTP_SCOPE, Decoder, Family, MTPHead, Tower, with_prefixes
from core.models.qwen3_5_vision import VisionConfig, VisionTower
from core.models.rope import rope_of
from core.models.settings import (
    Count,
    Depth,
    Experts,
    ExpertSettings,
    Index,
    Positive,
    Settings,
    Taps,
    TextSettings,
    check_layer_types,
    feed_forward_of,
    is_tied,
)
from core.weights.plan import Weights
from kernels.common.shapes import DeltaShape

LayerType = Literal["linear_attention", "full_attention"]

# ------------------------------------------------------------------ config


class RopeConfig(Settings):
    rope_type: Literal["default", "mrope"] = "default"
    rope_theta: Positive = 10000.0
    partial_rotary_factor: float = Field(default=0.25, gt=0, le=1)
    mrope_section: tuple[Index, Index, Index] = (11, 11, 10)
    mrope_interleaved: Literal[True] = True


class TextConfig(TextSettings):
    """`text_config` of config.json, or all of it in a text-only folder."""

    vocab_size: Count
    intermediate_size: Count
    num_hidden_layers: Depth
    head_dim: Count = 256
    linear_conv_kernel_dim: Taps = 4
    linear_num_key_heads: Count = 16
    linear_num_value_heads: Count = 32
    linear_key_head_dim: Count = 128
    linear_value_head_dim: Count = 128
    max_position_embeddings: Count = 32768
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    attn_output_gate: Literal[True] = True
    hidden_act: Literal["silu"] = "silu"
    full_attention_interval: Depth = 4
    layer_types: tuple[LayerType, ...] = ()
    rope_parameters: RopeConfig = RopeConfig()
    tie_word_embeddings: bool | None = None

    # True if the file groups the delta nets' projections by key head (Qwen3-Next).
    by_key_head: ClassVar[bool] = False

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        given = super().respell(given, values)
        beside = ("rope_theta", "partial_rotary_factor")
        rope = {key: given[key] for key in beside if key in given} | rope_of(given)
        return given | {"rope_parameters": rope}

    @model_validator(mode="after")
    def _fits(self) -> TextConfig:
        self.check_heads(rotated=False)
        if self.linear_num_value_heads % self.linear_num_key_heads:
            raise ValueError('"linear_num_value_heads" is not a multiple of "linear_num_key_heads"')
        check_layer_types(self.types, self.num_hidden_layers)
        if self.rotary_dim < 2 or self.rotary_dim % 2:
            raise ValueError('"head_dim" x "partial_rotary_factor" is not an even number')
        return self

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.rope_parameters.partial_rotary_factor)

    @property
    def types(self) -> tuple[LayerType, ...]:
        every = self.full_attention_interval
        return self.layer_types or tuple(
            "linear_attention" if (index + 1) % every else "full_attention"
            for index in range(self.num_hidden_layers)
        )

    @property
    def delta_shape(self) -> DeltaShape:
        key_heads, key_dim = self.linear_num_key_heads, self.linear_key_head_dim
        value_heads, value_dim = self.linear_num_value_heads, self.linear_value_head_dim
        taps = self.linear_conv_kernel_dim
        return DeltaShape(key_heads, key_dim, value_heads, value_dim, taps)


class Qwen3_5Config(Settings):  # noqa: N801
    text_config: TextConfig
    vision_config: VisionConfig | None = None
    language_model_only: bool = False
    tie_word_embeddings: bool | None = None

    # The `model_type` of text-only folders.
    text_only: ClassVar[str] = "qwen3_5_text"

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if values.get("model_type") == cls.text_only:
            return {"text_config": values, "language_model_only": True}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Qwen3_5Config:
        vision = self.vision
        if vision and vision.out_hidden_size != self.text_config.hidden_size:
            raise ValueError('"vision_config.out_hidden_size" is not "text_config.hidden_size"')
        return self

    @property
    def vision(self) -> VisionConfig | None:
        return None if self.language_model_only else self.vision_config

    @property
    def tied(self) -> bool:
        return is_tied(self, usual=False)


# ------------------------------------------------------------------ model


def _block(
    config: TextConfig, weights: Weights, layer: int, kind: LayerType, make: MakeFeedForward
) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = ZeroCentredRMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = ZeroCentredRMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    mlp = make(weights.scope("mlp"), layer, mlp_norm.as_input)
    mixer: Mixer
    if kind == "linear_attention":
        mixer = GatedDeltaNet(
            weights.scope("linear_attn"),
            width,
            config.delta_shape,
            epsilon,
            by_key_head=config.by_key_head,
            input_norm=mixer_norm.as_input,
        )
    else:
        mixer = Attention(
            weights.scope("self_attn"),
            width,
            config.attention_shape(),
            rotary_dim=config.rotary_dim,
            norm=ZeroCentredRMSNorm,
            epsilon=epsilon,
            bias=config.attention_bias,
            gated=True,
            input_norm=mixer_norm.as_input,
        )
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), mixer, mlp)


def _mtp_head(text: TextConfig, weights: Weights, make: MakeFeedForward) -> MTPHead | None:
    """The folder's head, if any. It needs the hidden row before the first new token, which only a
    checkpoint has: without recurrent layers a prefix may end where there is none."""
    if weights.stored(MTP_MARK) is None or "linear_attention" not in text.types:
        return None
    scope, last = weights.scope(MTP_SCOPE), text.num_hidden_layers - 1
    block = _block(text, scope.scope("layers.0"), last, "full_attention", make)
    return MTPHead(scope, text.hidden_size, text.rms_norm_eps, block)


def build(config: Qwen3_5Config, weights: Weights, device: torch.device) -> Decoder:
    vision = config.vision
    scope = weights.scope("model.visual", exact=True)
    tower = VisionTower(scope, vision, device) if vision else None
    return decoder(config.text_config, weights, device, config.tied, tower)


def decoder(
    text: TextConfig, weights: Weights, device: torch.device, tied: bool, tower: Tower | None
) -> Decoder:
    scope, rope = weights.scope("model.language_model"), text.rope_parameters
    rotate = InterleavedMRoPE(
        rope.rope_theta, text.rotary_dim, rope.mrope_section, device, weights.dtype
    )
    make = feed_forward_of(text)
    return Decoder(
        weights,
        scope,
        device,
        text,
        tied=tied,
        blocks=[
            _block(text, each, *kind, make) for each, kind in scope.layers(enumerate(text.types))
        ],
        norm=ZeroCentredRMSNorm(scope.scope("norm"), text.hidden_size, text.rms_norm_eps),
        ropes={"full_attention": rotate},
        tower=tower,
        mtp=_mtp_head(text, weights, make),
    )


# ------------------------------------------------------------------ names

_FULL, _TEXT_ONLY = "model.language_model.", "model."


def published_names(config: Qwen3_5Config, found: Collection[str]) -> Callable[[str], str]:
    """Text-only folders leave out a level."""
    spellings = (_FULL, _TEXT_ONLY) if config.vision else (_TEXT_ONLY, _FULL)
    return with_prefixes(found, (_FULL, "embed_tokens.weight", spellings))


FAMILY = Family("Qwen3_5Model", Qwen3_5Config, build, published_names)


# ------------------------------------------------------------------ sparse experts


class MoeTextConfig(TextConfig, ExpertSettings):
    intermediate_size: Count = 5632  # of dense layers, which few of these models have
    num_experts: Experts = 256
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 512
    shared_expert_intermediate_size: Count = 512


class Qwen3_5MoeConfig(Qwen3_5Config):  # noqa: N801 - the family is written so
    text_config: MoeTextConfig

    text_only: ClassVar[str] = "qwen3_5_moe_text"


class NextTextConfig(MoeTextConfig):
    num_experts: Experts = 512
    num_experts_per_tok: Count = 10

    by_key_head: ClassVar[bool] = True


class Qwen3NextConfig(Qwen3_5MoeConfig):
    text_config: NextTextConfig

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return {"text_config": values, "language_model_only": True}


MOE_FAMILY = Family("Qwen3_5MoeModel", Qwen3_5MoeConfig, build, published_names)
NEXT_FAMILY = Family("Qwen3NextModel", Qwen3NextConfig, build, published_names)
