"""Ministral 3 (text only): a pure transformer under YaRN. Past the trained length attention would
become flatter, so queries are multiplied by a number that grows with their position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family, with_prefixes
from core.models.rope import RopeSettings, YarnSettings, rope_of
from core.models.settings import Count, Depth, Positive, TextSettings
from core.weights.plan import Weights

# ------------------------------------------------------------------ config


_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16_384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


class Ministral3Config(TextSettings):
    vocab_size: Count = 131_072
    hidden_size: Count = 4_096
    intermediate_size: Count = 14_336
    num_hidden_layers: Depth = 34
    num_attention_heads: Count = 32
    num_key_value_heads: Count = 8
    head_dim: Count = 128
    max_position_embeddings: Count = 262_144
    rms_norm_eps: Positive = 1e-5
    hidden_act: Literal["silu"] = "silu"
    sliding_window: Count | None = None
    rope_parameters: RopeSettings = RopeSettings()
    yarn: YarnSettings | None = None
    tie_word_embeddings: bool = False

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(given.get("text_config"), dict):  # beside a vision tower, which isn't read
            text, tied = given["text_config"], given.get("tie_word_embeddings", False)
            if text.get("model_type") != "ministral3":
                raise ValueError('"text_config" is of a model that is not supported')
            given = {key: each for key, each in text.items() if each is not None}
            given.setdefault("tie_word_embeddings", tied)
        is_given = "rope_parameters" in given or "rope_scaling" in given
        rope = rope_of(given) if is_given else _ROPE
        given.pop("rope_parameters", None)
        kind = "yarn" if rope["rope_type"] == "yarn" else "rope_parameters"
        return {kind: rope} | given

    @model_validator(mode="after")
    def _fits(self) -> Ministral3Config:
        self.check_heads()
        return self


# ------------------------------------------------------------------ model


def _block(config: Ministral3Config, weights: Weights) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    attention = Attention(
        weights.scope("self_attn"),
        width,
        config.attention_shape(config.sliding_window),
        query_rope="queries",
        input_norm=mixer_norm.as_input,
    )
    inner = config.intermediate_size
    mlp = SwiGLU(weights.scope("mlp"), width, inner, input_norm=mlp_norm.as_input)
    return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), attention, mlp)


def build(config: Ministral3Config, weights: Weights, device: torch.device) -> Decoder:
    scope, yarn = weights.scope("model"), config.yarn
    frequencies = (yarn or config.rope_parameters).frequencies(config.head_dim, device)
    factor, temperature = 1.0, None
    if yarn is not None:
        factor = yarn.multiplier
        temperature = yarn.llama_4_scaling_beta, yarn.original_max_position_embeddings
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, each) for each, _ in scope.layers(range(config.num_hidden_layers))],
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={
            "full_attention": RoPE(frequencies, weights.dtype, factor=factor),
            "queries": RoPE(frequencies, weights.dtype, factor=factor, temperature=temperature),
        },
    )


# ------------------------------------------------------------------ names


def published_names(config: Ministral3Config, found: Collection[str]) -> Callable[[str], str]:
    """The spellings of transformers 4 and 5, for folders with a vision tower."""
    text, older = "model.language_model.", "language_model."
    return with_prefixes(
        found,
        ("model.", "embed_tokens.weight", ("model.", text, f"{older}model.")),
        ("lm_head.", "weight", ("lm_head.", f"{older}lm_head.")),
    )


FAMILY = Family("Ministral3Model", Ministral3Config, build, published_names)
