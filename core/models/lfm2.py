"""LFM2 (dense, text only): config, block with its cache spec, model, weight names.

A hybrid whose recurrent part is tiny: most layers are gated short convolutions that remember two
rows, the others full attention under plain RoPE. LFM2-VL is the same stack behind a vision tower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE, Rotations
from core.layers.short_conv import ShortConv
from core.models.config.attention_settings import AttentionSettings
from core.models.config.rope_settings import RopeSettings, one_spelling
from core.models.config.settings import Count, Depth, Positive, Taps, parse_settings
from core.models.decoder import Decoder, Stack, Tower
from core.weights.plan import Weights
from kernels.common.shapes import SumShape

LayerType = Literal["conv", "full_attention"]
_THETA = 1_000_000.0

# ------------------------------------------------------------------ config


class Lfm2Config(AttentionSettings):
    """config.json, or its `text_config`; what it leaves out has the value of transformers."""

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

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Gather what older files and newer ones name differently."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        for older, newer in (
            ("block_ff_dim", "intermediate_size"),
            ("tie_embedding", "tie_word_embeddings"),
        ):
            if older in given:
                given[newer] = given[older]
        types = given.get("layer_types", _types(given))
        given["layer_types"] = tuple(types) if isinstance(types, list) else types
        hidden = given.setdefault("hidden_size", 2_560)
        heads = given.setdefault("num_attention_heads", 32)
        if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
            given.setdefault("head_dim", hidden // heads)
        return given | {"rope_parameters": {"rope_theta": _THETA} | one_spelling(given)}

    @model_validator(mode="after")
    def _fits(self) -> Lfm2Config:
        self.check_heads()
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError('"layer_types" does not name "num_hidden_layers" layers')
        if not 1 <= self.mlp_width <= 2**24:
            raise ValueError('"block_ffn_dim_multiplier" makes MLPs of no width, or of too much')
        return self

    @property
    def mlp_width(self) -> int:
        """The inner width of the MLPs: by default two thirds of what is named, rounded up."""
        if not self.block_auto_adjust_ff_dim:
            return self.intermediate_size
        width = int(self.block_ffn_dim_multiplier * int(2 * self.intermediate_size / 3))
        return -(-width // self.block_multiple_of) * self.block_multiple_of


def _types(given: Mapping[str, Any]) -> list[LayerType]:
    """The kinds of layers of a file that lists those of attention, or none: then all are."""
    count = given.get("num_hidden_layers", 32)
    if not isinstance(count, int) or not 0 < count <= 1024:
        return []  # refused for what it is
    full = given.get("full_attn_idxs", list(range(count)))
    if not isinstance(full, list):
        raise ValueError('"full_attn_idxs" is not a list')
    return ["full_attention" if index in full else "conv" for index in range(count)]


def parse_config(values: Mapping[str, Any]) -> Lfm2Config:
    """config.json as an Lfm2Config; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(Lfm2Config, values)


# ------------------------------------------------------------------ block


class Block:
    """x + mixer(norm x), then x + mlp(norm x); the mixer is a short convolution or attention."""

    def __init__(self, weights: Weights, config: Lfm2Config, kind: LayerType) -> None:
        width, epsilon = config.hidden_size, config.norm_eps

        def head_norm(scope: Weights) -> RMSNorm:
            return RMSNorm(scope, config.head_dim, epsilon)

        self.mixer_norm = RMSNorm(weights.scope("operator_norm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("ffn_norm"), width, epsilon)
        inner, input_norm = config.mlp_width, self.mlp_norm.as_input
        self.mlp = SwiGLU(weights.scope("feed_forward"), width, inner, input_norm=input_norm)
        self._add = weights.ops(SumShape(width)).add
        self.mixer: ShortConv | Attention
        input_norm = self.mixer_norm.as_input
        if kind == "conv":
            taps, bias = config.conv_L_cache, config.conv_bias
            scope = weights.scope("conv")
            self.mixer = ShortConv(scope, width, taps, bias=bias, input_norm=input_norm)
        else:
            self.mixer = Attention(
                weights.scope("self_attn"),
                config.attention_sizes,
                head_norm,
                bias=False,
                input_norm=input_norm,
            )

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.mixer_norm(hidden)
        if isinstance(self.mixer, ShortConv):
            mixed = self.mixer(inputs, memory, layer)
        else:
            mixed = self.mixer(inputs, rotations["full_attention"], memory, layer)
        normed, hidden = self.mlp_norm.of_sum(mixed, hidden)
        return self._add(hidden, self.mlp(normed, memory.is_step))

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.mixer.spec,)


# ------------------------------------------------------------------ model


def stack_of(
    config: Lfm2Config, scope: Weights, device: torch.device, tied: bool, tower: Tower | None = None
) -> Stack:
    """The text stack of LFM2 and LFM2-VL, whose tensors lie in `scope`."""
    frequencies = config.rope_parameters.frequencies(config.head_dim, device)
    return Stack(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        tied=tied,
        blocks=[
            Block(scope.scope(f"layers.{index}"), config, kind)
            for index, kind in enumerate(config.layer_types)
        ],
        norm=RMSNorm(scope.scope("embedding_norm"), config.hidden_size, config.norm_eps),
        ropes={"full_attention": RoPE(frequencies, scope.dtype)},
        tower=tower,
    )


class Lfm2Model(Decoder):
    """The text stack and its head."""

    def __init__(self, config: Lfm2Config, weights: Weights, device: torch.device) -> None:
        scope = weights.scope("model")
        stack = stack_of(config, scope, device, config.tie_word_embeddings)
        super().__init__(stack, weights, scope, device)


# ------------------------------------------------------------------ weight names

# What the layers that all families share ask for, and what this one calls it.
_NAMES = {
    "feed_forward.gate_proj": "feed_forward.w1",
    "feed_forward.up_proj": "feed_forward.w3",
    "feed_forward.down_proj": "feed_forward.w2",
    "self_attn.o_proj": "self_attn.out_proj",
    "self_attn.q_norm": "self_attn.q_layernorm",
    "self_attn.k_norm": "self_attn.k_layernorm",
}
_SHARED = re.compile(r"(?<=\d\.)(?:{})(?=\.)".format("|".join(map(re.escape, _NAMES))))


def published_name(name: str) -> str:
    """What the files call a tensor of the text stack."""
    return _SHARED.sub(lambda found: _NAMES[found[0]], name)


def published_names(config: Lfm2Config, found: Collection[str]) -> Callable[[str], str]:
    """From the names that layers ask for to the folder's."""
    return published_name
