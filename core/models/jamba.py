"""Jamba (text only): config, block with its cache spec, model, weight names.

Most blocks are Mamba-1, every few full attention, which knows no positions; every few have sparse
experts in place of a dense feed-forward layer. In the smallest releases there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.experts import ExpertSizes, FeedForward, SparseExperts
from core.layers.mamba1 import Mamba1, Mamba1Sizes
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.settings import (
    Count,
    Depth,
    Experts,
    Positive,
    Taps,
    parse_settings,
)
from core.models.decoder import Decoder, Stack
from core.weights.plan import Weights
from kernels.common.shapes import Routing, SumShape

Offset = Annotated[int, Field(ge=0)]

# ------------------------------------------------------------------ config


class JambaConfig(AttentionSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

    vocab_size: Count = 65536
    hidden_size: Count = 4096
    intermediate_size: Count = 14336
    num_hidden_layers: Depth = 32
    num_attention_heads: Count = 32
    max_position_embeddings: Count = 262144
    hidden_act: Literal["silu"] = "silu"
    rms_norm_eps: Positive = 1e-6
    tie_word_embeddings: bool = False
    attn_layer_period: Depth = 8
    attn_layer_offset: Offset = 4
    num_experts: Experts = 16
    num_experts_per_tok: Count = 2
    expert_layer_period: Depth = 2
    expert_layer_offset: Offset = 1
    mamba_d_state: Count = 16
    mamba_d_conv: Taps = 4
    mamba_expand: Count = 2
    mamba_dt_rank: Count
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    mamba_inner_layernorms: Literal[True] = True

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Fill in what follows from other keys, and what has a second name or a word for it."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        if "num_local_experts" in given:
            given.setdefault("num_experts", given["num_local_experts"])
        if given.get("mamba_dt_rank") == "auto":
            del given["mamba_dt_rank"]
        return _left_out(values) | given

    @model_validator(mode="after")
    def _fits(self) -> JambaConfig:
        self.check_heads(rotated=False)
        if self.attn_layer_offset >= self.attn_layer_period:
            raise ValueError('"attn_layer_offset" is not below "attn_layer_period"')
        if self.expert_layer_offset >= self.expert_layer_period:
            raise ValueError('"expert_layer_offset" is not below "expert_layer_period"')
        if self.num_experts != 1 and self.num_experts < self.num_experts_per_tok:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self

    def has_attention(self, layer: int) -> bool:
        """Whether a block, by its place in the stack, is attention and not Mamba-1."""
        return layer % self.attn_layer_period == self.attn_layer_offset

    def is_sparse(self, layer: int) -> bool:
        """Whether a block, by its place in the stack, has experts."""
        chosen = layer % self.expert_layer_period == self.expert_layer_offset
        return chosen and self.num_experts > 1

    @property
    def mamba_sizes(self) -> Mamba1Sizes:
        return Mamba1Sizes(
            hidden=self.hidden_size,
            width=self.mamba_expand * self.hidden_size,
            state_dim=self.mamba_d_state,
            rank=self.mamba_dt_rank,
            kernel=self.mamba_d_conv,
        )

    @property
    def expert_sizes(self) -> ExpertSizes:
        return ExpertSizes(
            hidden=self.hidden_size,
            inner=self.intermediate_size,
            count=self.num_experts,
            routing=Routing(self.num_experts_per_tok, normalise=False),
        )


def _left_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers takes for keys that config.json may leave out, or say null for."""
    hidden = values.get("hidden_size", 4096)
    heads = values.get("num_attention_heads", 32)
    key_heads = heads if "num_key_value_heads" in values else 8
    left_out: dict[str, Any] = {"num_key_value_heads": key_heads}
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        left_out |= {"head_dim": hidden // heads, "mamba_dt_rank": -(-hidden // 16)}
    return left_out


def parse_config(values: Mapping[str, Any]) -> JambaConfig:
    """config.json as a JambaConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(JambaConfig, values)


# ------------------------------------------------------------------ block


class Block:
    """x + mixer(norm x), then x + feed_forward(norm x); the mixer is Mamba-1 or attention."""

    def __init__(self, weights: Weights, config: JambaConfig, layer: int) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("pre_ff_layernorm"), width, epsilon)
        self.mlp = _feed_forward(weights.scope("feed_forward"), config, layer, self.mlp_norm)
        self._add = weights.ops(SumShape(width)).add
        self.mixer: Mamba1 | Attention
        input_norm = self.mixer_norm.as_input
        if config.has_attention(layer):
            scope, sizes = weights.scope("self_attn"), config.attention_sizes
            self.mixer = Attention(scope, sizes, None, bias=False, input_norm=input_norm)
        else:
            self.mixer = Mamba1(
                weights.scope("mamba"),
                config.mamba_sizes,
                epsilon,
                conv_bias=config.mamba_conv_bias,
                bias=config.mamba_proj_bias,
                input_norm=input_norm,
            )

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.mixer_norm(hidden)
        if isinstance(self.mixer, Mamba1):
            mixed = self.mixer(inputs, memory, layer)
        else:
            mixed = self.mixer(inputs, None, memory, layer)
        normed, hidden = self.mlp_norm.of_sum(mixed, hidden)
        return self._add(hidden, self.mlp(normed, memory.is_step))

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.mixer.spec,)


def _feed_forward(weights: Weights, config: JambaConfig, layer: int, norm: RMSNorm) -> FeedForward:
    if config.is_sparse(layer):
        return SparseExperts(weights, config.expert_sizes, norm.as_input, router="router")
    width, inner = config.hidden_size, config.intermediate_size
    return SwiGLU(weights, width, inner, input_norm=norm.as_input)


# ------------------------------------------------------------------ model


class JambaModel(Decoder):
    """The text stack and its head."""

    def __init__(self, config: JambaConfig, weights: Weights, device: torch.device) -> None:
        scope, width = weights.scope("model"), config.hidden_size
        stack = Stack(
            vocab_size=config.vocab_size,
            hidden_size=width,
            max_positions=config.max_position_embeddings,
            tied=config.tie_word_embeddings,
            blocks=[
                Block(scope.scope(f"layers.{layer}"), config, layer)
                for layer in range(config.num_hidden_layers)
            ],
            norm=RMSNorm(scope.scope("final_layernorm"), width, config.rms_norm_eps),
            ropes={},
        )
        super().__init__(stack, weights, scope, device)
