"""Gemma 3, with and without vision: a pure transformer. Every sixth layer sees everything, the
others a window, under a RoPE of their own. Tokens of one picture attend to one another both
ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import SwiGLU
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family, with_prefixes
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Positive,
    Settings,
    TextSettings,
    check_layer_types,
    is_tied,
)
from core.models.siglip import VisionConfig, VisionTower
from core.weights.plan import Weights

LayerType = Literal["sliding_attention", "full_attention"]

# ------------------------------------------------------------------ config


class TextConfig(TextSettings):
    vocab_size: Count = 262_208
    intermediate_size: Count
    num_hidden_layers: Depth
    num_attention_heads: Count = 8
    num_key_value_heads: Count = 4
    head_dim: Count = 256
    query_pre_attn_scalar: Positive = 256.0
    max_position_embeddings: Count = 131_072
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    hidden_activation: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    sliding_window: Count = 4096
    sliding_window_pattern: Depth = 6
    layer_types: tuple[LayerType, ...] = ()
    full_rope: RopeSettings
    sliding_rope: RopeSettings
    use_bidirectional_attention: Literal[False] = False
    tie_word_embeddings: bool | None = None

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        for refused in ("final_logit_softcapping", "attn_logit_softcapping"):
            if refused in given:
                raise ValueError(f'"{refused}" is not supported')
        if "_sliding_window_pattern" in given:
            given.setdefault("sliding_window_pattern", given["_sliding_window_pattern"])
        return given | _ropes(given)

    @model_validator(mode="after")
    def _fits(self) -> TextConfig:
        self.check_heads()
        check_layer_types(self.types, self.num_hidden_layers)
        return self

    @property
    def types(self) -> tuple[LayerType, ...]:
        return self.layer_types or tuple(
            "sliding_attention" if (index + 1) % self.sliding_window_pattern else "full_attention"
            for index in range(self.num_hidden_layers)
        )


def _ropes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Older files scale the RoPE of full layers alone."""
    both = given.get("rope_parameters") or {}
    if not isinstance(both, dict):
        raise ValueError('"rope_parameters" is not an object')
    full = {**given, "rope_parameters": both.get("full_attention")}
    sliding = {**given, "rope_parameters": both.get("sliding_attention"), "rope_scaling": None}
    return {
        "full_rope": {"rope_theta": 1_000_000.0} | rope_of(full),
        "sliding_rope": rope_of(sliding, "rope_local_base_freq"),
    }


class Gemma3Config(Settings):
    text_config: TextConfig
    vision_config: VisionConfig | None = None
    mm_tokens_per_image: Count = 256
    tie_word_embeddings: bool | None = None

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if values.get("model_type") == "gemma3_text":
            return {"text_config": values}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Gemma3Config:
        vision = self.vision_config
        if vision and (self.side**2 != self.mm_tokens_per_image or vision.side % self.side):
            raise ValueError(
                '"mm_tokens_per_image" does not divide the patches into squares of equal size'
            )
        return self

    @property
    def side(self) -> int:
        return math.isqrt(self.mm_tokens_per_image)

    @property
    def tied(self) -> bool:
        return is_tied(self, usual=True)


# ------------------------------------------------------------------ model


def _block(config: TextConfig, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    names = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    mixer_norm, after_mixer, mlp_norm, after_mlp = (
        ZeroCentredRMSNorm(weights.scope(f"{name}_layernorm"), width, epsilon) for name in names
    )
    inner = config.intermediate_size
    scope = weights.scope("mlp")
    mlp = SwiGLU(scope, width, inner, gelu=True, input_norm=mlp_norm.as_input)
    attention = Attention(
        weights.scope("self_attn"),
        width,
        config.attention_shape(config.sliding_window if kind == "sliding_attention" else None),
        rope=kind,
        norm=ZeroCentredRMSNorm,
        epsilon=epsilon,
        bias=config.attention_bias,
        scale=config.query_pre_attn_scalar**-0.5,
        both_ways=True,
        input_norm=mixer_norm.as_input,
    )
    norms = Norms(mixer_norm, mlp_norm, after_mixer, after_mlp)
    return HybridBlock(weights, width, norms, attention, mlp)


def build(config: Gemma3Config, weights: Weights, device: torch.device) -> Decoder:
    text, vision = config.text_config, config.vision_config
    scope, width = weights.scope("language_model.model"), text.hidden_size
    ropes = {"full_attention": text.full_rope, "sliding_attention": text.sliding_rope}
    # Rounded to the model's type before it multiplies, as in training: in bfloat16 the square root
    # of 3,072 is 55.5 and not 55.43.
    scale = torch.tensor(width**0.5).to(weights.dtype).item()
    return Decoder(
        weights,
        scope,
        device,
        text,
        tied=config.tied,
        blocks=[_block(text, *each) for each in scope.layers(text.types)],
        norm=ZeroCentredRMSNorm(scope.scope("norm"), width, text.rms_norm_eps),
        ropes={
            kind: RoPE(settings.frequencies(text.head_dim, device), weights.dtype)
            for kind, settings in ropes.items()
        },
        tower=VisionTower(weights, vision, config.side, width) if vision else None,
        embedding_multiplier=scale,
    )


# ------------------------------------------------------------------ names

_TOWERS = ("vision_tower.vision_model.", "vision_tower.")


def published_names(config: Gemma3Config, found: Collection[str]) -> Callable[[str], str]:
    """The spellings of the hub, of transformers 4 and 5, and of text-only folders."""
    text, projector = "language_model.model.", "multi_modal_projector."
    return with_prefixes(
        found,
        (text, "embed_tokens.weight", (text, "model.language_model.", "model.")),
        (_TOWERS[0], "post_layernorm.weight", (*_TOWERS, *(f"model.{each}" for each in _TOWERS))),
        (projector, "mm_soft_emb_norm.weight", (projector, f"model.{projector}")),
        ("lm_head.", "weight", ("lm_head.", "language_model.lm_head.")),
    )


FAMILY = Family("Gemma3Model", Gemma3Config, build, published_names)
