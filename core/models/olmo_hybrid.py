"""OLMo-Hybrid (text only): mostly gated delta nets, every fourth layer attention without positions.
Attention layers have norms after their halves, the others before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import SwiGLU
from core.layers.gated_deltanet import GatedDeltaNet
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Positive,
    Taps,
    TextSettings,
    check_layer_types,
    head_dim_of,
)
from core.weights.plan import Weights
from kernels.common.shapes import DeltaShape

LayerType = Literal["linear_attention", "full_attention"]
_EPSILON = 1e-5  # of the norm in a delta net; not in the config

# ------------------------------------------------------------------ config


class OlmoHybridConfig(TextSettings):
    vocab_size: Count = 100_352
    hidden_size: Count = 3_840
    intermediate_size: Count = 11_008
    num_hidden_layers: Depth = 32
    num_attention_heads: Count = 30
    max_position_embeddings: Count = 65_536
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    layer_types: tuple[LayerType, ...] = ()
    linear_num_key_heads: Count
    linear_num_value_heads: Count
    linear_key_head_dim: Count
    linear_value_head_dim: Count
    linear_conv_kernel_dim: Taps = 4
    linear_allow_neg_eigval: bool = True
    position_embedding_type: Literal["rope", "nope"]
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        given = {"hidden_size": 3_840, "num_attention_heads": 30} | given
        heads, hidden = given["num_attention_heads"], given["hidden_size"]
        defaults = head_dim_of(given) | dict.fromkeys(
            ("num_key_value_heads", "linear_num_key_heads", "linear_num_value_heads"), heads
        )
        key_heads = given.get("linear_num_key_heads", heads)
        if isinstance(hidden, int) and isinstance(key_heads, int) and key_heads > 0:
            defaults["linear_key_head_dim"] = 3 * hidden // (4 * key_heads)
        key_dim = (defaults | given).get("linear_key_head_dim")
        if isinstance(key_dim, int):
            defaults["linear_value_head_dim"] = 2 * key_dim
        return _rope(given, values) | defaults | given

    @model_validator(mode="after")
    def _fits(self) -> OlmoHybridConfig:
        self.check_heads(rotated=self.position_embedding_type == "rope")
        if self.linear_num_value_heads % self.linear_num_key_heads:
            raise ValueError('"linear_num_value_heads" is not a multiple of "linear_num_key_heads"')
        check_layer_types(self.types, self.num_hidden_layers)
        return self

    @property
    def types(self) -> tuple[LayerType, ...]:
        count = self.num_hidden_layers
        return self.layer_types or tuple(
            "full_attention" if index % 4 == 3 or index == count - 1 < 3 else "linear_attention"
            for index in range(count)
        )

    @property
    def delta_shape(self) -> DeltaShape:
        return DeltaShape(
            self.linear_num_key_heads,
            self.linear_key_head_dim,
            self.linear_num_value_heads,
            self.linear_value_head_dim,
            self.linear_conv_kernel_dim,
        )


def _rope(given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A null base, as in releases, means no RoPE; an absent one the usual base."""
    rope = rope_of(given)
    given.pop("rope_parameters", None)
    if ({"rope_theta": values.get("rope_theta", 0)} | rope)["rope_theta"] is None:
        return {"position_embedding_type": "nope"}
    return {"position_embedding_type": "rope", "rope_parameters": rope}


# ------------------------------------------------------------------ model


def _block(config: OlmoHybridConfig, weights: Weights, kind: LayerType) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    first, second = (
        ("input_layernorm", "post_attention_layernorm")
        if kind == "linear_attention"
        else ("post_attention_layernorm", "post_feedforward_layernorm")
    )
    mixer_norm = RMSNorm(weights.scope(first), width, epsilon)
    mlp_norm = RMSNorm(weights.scope(second), width, epsilon)
    inner, scope = config.intermediate_size, weights.scope("mlp")
    if kind == "linear_attention":
        delta_net = GatedDeltaNet(
            weights.scope("linear_attn"),
            width,
            config.delta_shape,
            _EPSILON,
            apart=True,
            most_beta=2.0 if config.linear_allow_neg_eigval else 1.0,
            input_norm=mixer_norm.as_input,
        )
        mlp = SwiGLU(scope, width, inner, input_norm=mlp_norm.as_input)
        return HybridBlock(weights, width, Norms(mixer_norm, mlp_norm), delta_net, mlp)
    attention = Attention(
        weights.scope("self_attn"),
        width,
        config.attention_shape(),
        rope="full_attention" if config.position_embedding_type == "rope" else None,
        norm=RMSNorm,
        norm_all_heads=True,
        epsilon=epsilon,
        bias=config.attention_bias,
    )
    norms = Norms(None, None, mixer_norm, mlp_norm)
    return HybridBlock(weights, width, norms, attention, SwiGLU(scope, width, inner))


def build(config: OlmoHybridConfig, weights: Weights, device: torch.device) -> Decoder:
    scope = weights.scope("model")
    # In float32 whatever the model's type, as in training.
    rope = RoPE(config.rope_parameters.frequencies(config.head_dim, device), torch.float32)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, *each) for each in scope.layers(config.types)],
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={"full_attention": rope} if config.position_embedding_type == "rope" else {},
    )


# ------------------------------------------------------------------ names

# Names that the shared layers ask for, and this family's; the first also of attention layers.
_SPELLINGS = {
    "post_attention_layernorm.": "feedforward_layer_norm.",
    "input_layernorm.": "attention_layer_norm.",
    "linear_attn.norm.": "linear_attn.o_norm.",
    "linear_attn.out_proj.": "linear_attn.o_proj.",
}


def published_names(config: OlmoHybridConfig, found: Collection[str]) -> Callable[[str], str]:
    def published(name: str) -> str:
        for ours, theirs in _SPELLINGS.items():
            other = name.replace(ours, theirs)
            if other != name and (other in found or name not in found):
                return other
        return name

    return published


FAMILY = Family("OlmoHybridModel", OlmoHybridConfig, build, published_names)
