"""Llama 2, 3 and Qwen3 (dense, text only): config, block with its cache spec, model, weight names.

Pure transformers: every layer is full attention under plain RoPE, so nothing but keys and values is
remembered. Qwen3 differs in one thing: it normalises queries and keys. Qwen3 MoE differs from that
in its feed-forward layers (core.models.qwen3_moe).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.experts import FeedForward, MakeFeedForward
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE, Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.rope_settings import RopeSettings, one_spelling
from core.models.config.settings import Count, Depth, Positive, parse_settings
from core.models.decoder import Decoder, Stack
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import SumShape

# ------------------------------------------------------------------ config


class LlamaConfig(AttentionSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

    model_type: Literal["llama", "qwen3", "qwen3_moe"]
    vocab_size: Count
    intermediate_size: Count
    num_hidden_layers: Depth
    max_position_embeddings: Count
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    use_sliding_window: Literal[False] = False
    layer_types: tuple[Literal["full_attention"], ...] = ()
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Gather RoPE's keys in one place, and fill in what each type leaves out."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        if isinstance(given.get("layer_types"), list):
            given["layer_types"] = tuple(given["layer_types"])
        return _left_out(given) | given | {"rope_parameters": one_spelling(given)}

    @model_validator(mode="after")
    def _fits(self) -> LlamaConfig:
        self.check_heads()
        return self


def _left_out(given: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers takes for keys that config.json may leave out."""
    heads, hidden = given.get("num_attention_heads"), given.get("hidden_size")
    if given.get("model_type") == "qwen3":
        return {"num_key_value_heads": heads, "head_dim": 128, "max_position_embeddings": 32768}
    left_out = {"num_key_value_heads": heads, "max_position_embeddings": 2048}
    if given.get("model_type") == "qwen3_moe":
        left_out = {"num_key_value_heads": 4, "max_position_embeddings": 32768}
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        left_out["head_dim"] = hidden // heads
    return left_out


def parse_config(values: Mapping[str, Any]) -> LlamaConfig:
    """config.json as a LlamaConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(LlamaConfig, values)


# ------------------------------------------------------------------ block


def dense(config: LlamaConfig) -> MakeFeedForward:
    """One for all tokens."""

    def make(weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        width, inner = config.hidden_size, config.intermediate_size
        return SwiGLU(weights, width, inner, bias=config.mlp_bias, input_norm=norm)

    return make


class Block:
    """x + attention(norm x), then x + mlp(norm x)."""

    def __init__(
        self, weights: Weights, config: LlamaConfig, layer: int, feed_forward: MakeFeedForward
    ) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps

        def head_norm(scope: Weights) -> RMSNorm:
            return RMSNorm(scope, config.head_dim, epsilon)

        self.attention_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
        self.attention = Attention(
            weights.scope("self_attn"),
            config.attention_sizes,
            None if config.model_type == "llama" else head_norm,
            bias=config.attention_bias,
            input_norm=self.attention_norm.as_input,
        )
        self.mlp = feed_forward(weights.scope("mlp"), layer, self.mlp_norm.as_input)
        self._add = weights.ops(SumShape(width)).add

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.attention_norm(hidden)
        attended = self.attention(inputs, rotations["full_attention"], memory, layer)
        normed, hidden = self.mlp_norm.of_sum(attended, hidden)
        return self._add(hidden, self.mlp(normed, memory.is_step))

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.attention.spec,)


# ------------------------------------------------------------------ model


class LlamaModel(Decoder):
    """The text stack and its head."""

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        device: torch.device,
        feed_forward: MakeFeedForward | None = None,
    ) -> None:
        """`feed_forward` makes those of its blocks; they are dense if it is None."""
        scope = weights.scope("model")
        frequencies = config.rope_parameters.frequencies(config.head_dim, device)
        stack = Stack(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            tied=config.tie_word_embeddings,
            blocks=[
                Block(scope.scope(f"layers.{index}"), config, index, feed_forward or dense(config))
                for index in range(config.num_hidden_layers)
            ],
            norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
            ropes={"full_attention": RoPE(frequencies, weights.dtype)},
        )
        super().__init__(stack, weights, scope, device)
