"""LFM3 (text only): gated short convolutions, and attention over the last tokens or over all, each
kind under its own RoPE. Heads have gates; each half of a block has a norm before and after."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.layers.short_conv import ShortConv
from core.models.decoder import Decoder, Family, Tower
from core.models.rope import RopeSettings, rope_of
from core.models.settings import Count, Depth, Positive, Taps, TextSettings, check_layer_types
from core.weights.plan import Weights
from kernels.common.shapes import ShortConvShape

LayerType = Literal["conv", "full_attention", "sliding_attention"]
_PERIOD: tuple[LayerType, ...] = ("sliding_attention", "conv", "full_attention", "conv")
_FULL_ROPE = {
    "rope_type": "proportional",
    "rope_theta": 1_000_000.0,
    "partial_rotary_factor": 0.5,
}

# ------------------------------------------------------------------ config


class Lfm3Config(TextSettings):
    vocab_size: Count = 128_000
    hidden_size: Count = 2_048
    intermediate_size: Count = 7_680
    num_hidden_layers: Depth = 24
    num_attention_heads: Count = 16
    num_key_value_heads: Count = 4
    head_dim: Count = 128
    max_position_embeddings: Count = 128_000
    norm_eps: Positive = 1e-5
    conv_bias: bool = False
    conv_L_cache: Taps = 7  # noqa: N815 - as config.json spells it
    attention_bias: Literal[False] = False
    layer_types: tuple[LayerType, ...] = ()
    full_rope: RopeSettings
    sliding_rope: RopeSettings
    sliding_window: Count = 256
    use_sandwich_norm: bool = True
    use_attention_gate: bool = True
    tie_word_embeddings: bool = True

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        ropes = given.get("rope_parameters", {"full_attention": _FULL_ROPE})
        if not isinstance(ropes, dict):
            raise ValueError('"rope_parameters" is not an object')
        full, sliding = (
            {"rope_theta": theta} | rope_of({"rope_parameters": ropes.get(kind)})
            for kind, theta in (("full_attention", 1_000_000.0), ("sliding_attention", 10_000.0))
        )
        return given | {"full_rope": full, "sliding_rope": sliding}

    @model_validator(mode="after")
    def _fits(self) -> Lfm3Config:
        self.check_heads()
        check_layer_types(self.types, self.num_hidden_layers)
        return self

    @property
    def types(self) -> tuple[LayerType, ...]:
        return self.layer_types or tuple(
            _PERIOD[index % 4] if index else "conv" for index in range(self.num_hidden_layers)
        )


# ------------------------------------------------------------------ model


def _block(config: Lfm3Config, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.norm_eps

    def norm(name: str) -> RMSNorm:
        return RMSNorm(weights.scope(name), width, epsilon)

    mixer_norm, mlp_norm = norm("operator_norm"), norm("ffn_norm")
    inner, input_norm = config.intermediate_size, mixer_norm.as_input
    mlp = SwiGLU(weights.scope("feed_forward"), width, inner, input_norm=mlp_norm.as_input)
    mixer: Mixer
    if kind == "conv":
        shape = ShortConvShape(width, config.conv_L_cache)
        mixer = ShortConv(
            weights.scope("conv"), shape, bias=config.conv_bias, input_norm=input_norm
        )
    else:
        mixer = Attention(
            weights.scope("self_attn"),
            width,
            config.attention_shape(config.sliding_window if kind == "sliding_attention" else None),
            rope=kind,
            norm=RMSNorm,
            epsilon=epsilon,
            head_gate="gate_proj" if config.use_attention_gate else None,
            input_norm=input_norm,
        )
    after = (norm("post_operator_norm"), norm("post_ffn_norm")) if config.use_sandwich_norm else ()
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm, *after), mixer, mlp)


def decoder(
    config: Lfm3Config,
    weights: Weights,
    scope: Weights,
    device: torch.device,
    tied: bool,
    tower: Tower | None = None,
) -> Decoder:
    ropes = {"full_attention": config.full_rope, "sliding_attention": config.sliding_rope}
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=tied,
        blocks=[_block(config, *each) for each in scope.layers(config.types)],
        norm=RMSNorm(scope.scope("embedding_norm"), config.hidden_size, config.norm_eps),
        ropes={
            # In float32 whatever the model's type, as in training.
            kind: RoPE(rope.frequencies(config.head_dim, device), torch.float32)
            for kind, rope in ropes.items()
            if kind in config.types
        },
        tower=tower,
    )


def build(config: Lfm3Config, weights: Weights, device: torch.device) -> Decoder:
    return decoder(config, weights, weights.scope("model"), device, config.tie_word_embeddings)


# ------------------------------------------------------------------ names

_NAMES = {
    "feed_forward.gate_proj": "feed_forward.w1",
    "feed_forward.up_proj": "feed_forward.w3",
    "feed_forward.down_proj": "feed_forward.w2",
}
_SHARED = re.compile("|".join(map(re.escape, _NAMES)))


def published_names(config: Any, found: Collection[str]) -> Callable[[str], str]:
    """transformers calls the gates of heads g_proj, releases gate_proj."""
    newer = any(".self_attn.g_proj." in name for name in found)

    def published(name: str) -> str:
        name = _SHARED.sub(lambda found: _NAMES[found[0]], name)
        return name.replace(".self_attn.gate_proj.", ".self_attn.g_proj.") if newer else name

    return published


FAMILY = Family("Lfm3Model", Lfm3Config, build, published_names)
