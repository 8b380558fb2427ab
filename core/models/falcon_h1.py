"""Falcon-H1 (text only): config, block with its cache specs, model, weight names.

Every block reads the same normalised input twice, with Mamba-2 and with full attention, and adds
up both: it has two memories. Numbers in config.json multiply what goes in and out of everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.mamba2 import Mamba2, Mamba2Form
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE, Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.mamba2_settings import Mamba2Settings, mamba2_spelling
from core.models.config.rope_settings import RopeSettings, one_spelling
from core.models.config.settings import Count, Depth, Multiplier, Positive, parse_settings
from core.models.decoder import Decoder, Stack
from core.weights.plan import Weights
from kernels.common.shapes import SumShape

# ------------------------------------------------------------------ config


class FalconH1Config(Mamba2Settings, AttentionSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

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
    # Those that others are divided by, and that of the scores.
    attention_out_multiplier: Positive = 1.0
    key_multiplier: Positive = 1.0
    mlp_multipliers: tuple[Multiplier, Multiplier] = (1.0, 1.0)
    ssm_in_multiplier: Multiplier = 1.0
    ssm_out_multiplier: Multiplier = 1.0
    ssm_multipliers: tuple[Multiplier, Multiplier, Multiplier, Multiplier, Multiplier] = (1.0,) * 5

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Gather RoPE's keys in one place, and fill in what follows from other keys."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        for key in ("mlp_multipliers", "ssm_multipliers"):
            if isinstance(given.get(key), list):
                given[key] = tuple(given[key])
        left_out = _left_out(values)
        width = (left_out | given).get("mamba_d_ssm")
        mamba = mamba2_spelling(given, width, given.get("mamba_n_heads", 128))
        return left_out | given | mamba | {"rope_parameters": one_spelling(given)}

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


def _left_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers takes for keys that config.json may leave out, or say null for."""
    heads, hidden = values.get("num_attention_heads"), values.get("hidden_size")
    key_heads = heads if "num_key_value_heads" in values else 8
    left_out: dict[str, Any] = {"num_key_value_heads": key_heads, "mamba_d_ssm": 1024}
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        left_out["head_dim"] = hidden // heads
    expand = values.get("mamba_expand", 2)
    if "mamba_d_ssm" in values and isinstance(hidden, int) and isinstance(expand, int):
        left_out["mamba_d_ssm"] = expand * hidden
    return left_out


def parse_config(values: Mapping[str, Any]) -> FalconH1Config:
    """config.json as a FalconH1Config; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(FalconH1Config, values)


# ------------------------------------------------------------------ block


class Block:
    """x + m mamba(norm x) + a attention(norm x), then x + d mlp(norm x).

    Every multiplier goes where it costs no rounding: what both mixers read is normalised once for
    each, keys' is the scores' scale, those of results are the sums', and Mamba-2 has its own.
    """

    def __init__(self, weights: Weights, config: FalconH1Config) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps
        norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("pre_ff_layernorm"), width, epsilon)
        self.mamba_norm = norm.times(config.ssm_in_multiplier)
        self.attention_norm = norm.times(config.attention_in_multiplier)
        input_norm = norm.as_input
        sizes = config.mamba_sizes_in(width)
        self.mamba = Mamba2(weights.scope("mamba"), sizes, config.mamba_form, input_norm)
        self.attention = Attention(
            weights.scope("self_attn"),
            config.attention_sizes,
            None,
            bias=config.attention_bias,
            scale=config.head_dim**-0.5 * config.key_multiplier,
            input_norm=input_norm,
        )
        gate_multiplier, self._of_mlp = config.mlp_multipliers
        self.mlp = SwiGLU(
            weights.scope("feed_forward"),
            width,
            config.intermediate_size,
            bias=config.mlp_bias,
            input_norm=self.mlp_norm.as_input,
            gate_multiplier=gate_multiplier,
        )
        self._of_attention = config.attention_out_multiplier
        self._of_mamba = config.ssm_out_multiplier / config.attention_out_multiplier
        self._add = weights.ops(SumShape(width)).add

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        mixed = self.mamba(self.mamba_norm(hidden), memory, layer)
        inputs, rotation = self.attention_norm(hidden), rotations["full_attention"]
        attended = self.attention(inputs, rotation, memory, layer + 1)
        both = self._add(attended, mixed, self._of_mamba)
        normed, hidden = self.mlp_norm.of_sum(both, hidden, self._of_attention)
        return self._add(hidden, self.mlp(normed, memory.is_step), self._of_mlp)

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return self.mamba.spec, self.attention.spec


# ------------------------------------------------------------------ model


class FalconH1Model(Decoder):
    """The text stack and its head."""

    def __init__(self, config: FalconH1Config, weights: Weights, device: torch.device) -> None:
        scope = weights.scope("model")
        frequencies = config.rope_parameters.frequencies(config.head_dim, device)
        norm = RMSNorm(scope.scope("final_layernorm"), config.hidden_size, config.rms_norm_eps)
        stack = Stack(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            tied=config.tie_word_embeddings,
            blocks=[
                Block(scope.scope(f"layers.{index}"), config)
                for index in range(config.num_hidden_layers)
            ],
            norm=norm,
            ropes={"full_attention": RoPE(frequencies, weights.dtype)},
            embedding_multiplier=config.embedding_multiplier,
            logits_multiplier=config.lm_head_multiplier,
        )
        super().__init__(stack, weights, scope, device)
