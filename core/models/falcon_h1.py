"""Falcon-H1 (text only): every block adds Mamba-2 and attention over the same input. All inputs and
outputs have multipliers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms, ParallelMixers
from core.layers.feed_forward import SwiGLU
from core.layers.mamba import Mamba2, Mamba2Form
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE
from core.models.decoder import Decoder, Family
from core.models.rope import RopeSettings, rope_of
from core.models.settings import (
    Count,
    Depth,
    Mamba2Settings,
    Multiplier,
    Positive,
    TextSettings,
    head_dim_of,
    mamba2_spelling,
)
from core.weights.plan import Weights

# ------------------------------------------------------------------ config


class FalconH1Config(Mamba2Settings, TextSettings):
    vocab_size: Count
    intermediate_size: Count
    num_hidden_layers: Depth
    max_position_embeddings: Count = 8192
    attention_bias: bool = False
    mlp_bias: bool = False
    projectors_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False
    mamba_d_ssm: Count
    mamba_rms_norm: bool = False
    mamba_norm_before_gate: bool = True
    embedding_multiplier: Multiplier = 1.0
    lm_head_multiplier: Multiplier = 1.0
    attention_in_multiplier: Multiplier = 1.0
    # Positive because others are divided by it, or because it multiplies scores.
    attention_out_multiplier: Positive = 1.0
    key_multiplier: Positive = 1.0
    mlp_multipliers: tuple[Multiplier, Multiplier] = (1.0, 1.0)
    ssm_in_multiplier: Multiplier = 1.0
    ssm_out_multiplier: Multiplier = 1.0
    ssm_multipliers: tuple[Multiplier, Multiplier, Multiplier, Multiplier, Multiplier] = (1.0,) * 5

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        # In transformers some keys mean one thing as null and another where they are missing.
        heads, hidden = values.get("num_attention_heads"), values.get("hidden_size")
        key_heads = heads if "num_key_value_heads" in values else 8
        defaults = head_dim_of(values) | {"num_key_value_heads": key_heads, "mamba_d_ssm": 1024}
        expand = values.get("mamba_expand", 2)
        if "mamba_d_ssm" in values and isinstance(hidden, int) and isinstance(expand, int):
            defaults["mamba_d_ssm"] = expand * hidden
        given = defaults | given
        mamba = mamba2_spelling(given, given["mamba_d_ssm"])
        return given | mamba | {"rope_parameters": rope_of(given)}

    @model_validator(mode="after")
    def _fits(self) -> FalconH1Config:
        self.check_mamba(self.mamba_d_ssm)
        self.check_heads()
        return self

    @property
    def mamba_form(self) -> Mamba2Form:
        return Mamba2Form(
            epsilon=self.rms_norm_eps,
            norm_groups=self.mamba_n_groups if self.mamba_rms_norm else 0,
            gate_first=not self.mamba_norm_before_gate,
            conv_bias=self.mamba_conv_bias,
            projection_bias=self.mamba_proj_bias,
            output_bias=self.projectors_bias,
            limits=self.time_step_limit,
            multipliers=self.ssm_multipliers,
        )


# ------------------------------------------------------------------ model


def _block(config: FalconH1Config, weights: Weights) -> HybridBlock:
    """Applies multipliers where nothing is rounded: mixers' inputs are normalised once for each,
    the keys' is part of the scores' scale, those of outputs of the sums."""
    width, epsilon = config.hidden_size, config.rms_norm_eps
    norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("pre_ff_layernorm"), width, epsilon)
    mamba = Mamba2(
        weights.scope("mamba"), width, config.mamba_shape, config.mamba_form, norm.as_input
    )
    attention = Attention(
        weights.scope("self_attn"),
        width,
        config.attention_shape(),
        bias=config.attention_bias,
        scale=config.head_dim**-0.5 * config.key_multiplier,
        input_norm=norm.as_input,
    )
    gate_multiplier, mlp_multiplier = config.mlp_multipliers
    mlp = SwiGLU(
        weights.scope("feed_forward"),
        width,
        config.intermediate_size,
        bias=config.mlp_bias,
        input_norm=mlp_norm.as_input,
        gate_multiplier=gate_multiplier,
    )
    mixers = ParallelMixers(
        weights,
        width,
        (norm.times(config.ssm_in_multiplier), mamba),
        (norm.times(config.attention_in_multiplier), attention),
        config.ssm_out_multiplier / config.attention_out_multiplier,
    )
    multipliers = config.attention_out_multiplier, mlp_multiplier
    return HybridBlock(weights, width, Norms(None, mlp_norm), mixers, mlp, multipliers)


def build(config: FalconH1Config, weights: Weights, device: torch.device) -> Decoder:
    scope = weights.scope("model")
    frequencies = config.rope_parameters.frequencies(config.head_dim, device)
    norm = RMSNorm(scope.scope("final_layernorm"), config.hidden_size, config.rms_norm_eps)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, each) for each, _ in scope.layers(range(config.num_hidden_layers))],
        norm=norm,
        ropes={"full_attention": RoPE(frequencies, weights.dtype)},
        embedding_multiplier=config.embedding_multiplier,
        logits_multiplier=config.lm_head_multiplier,
    )


FAMILY = Family("FalconH1Model", FalconH1Config, build)
