"""Qwen3.5 and its kin (3.6, 3.8; dense): config, block with its cache spec, model, weight names.

Those with sparse experts (qwen3_5_moe) and their elder (qwen3_next) differ in feed-forward layers
and in how weights lie in the files.

A hybrid: most layers are gated delta nets with a state of fixed size, every fourth is full
attention with interleaved M-RoPE. Knows the arithmetic of a forward; where its memory lies is the
cache's business, when it runs the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from core.layers.attention import AttentionSizes, GatedAttention
from core.layers.experts import FeedForward, MakeFeedForward
from core.layers.gated_deltanet import GatedDeltaNet, GatedDeltaNetSizes
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.mtp import MARK, SCOPE, MTPHead
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import InterleavedMRoPE, Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.settings import Count, Depth, Positive, Settings, Taps, parse_settings
from core.models.decoder import Decoder, Stack
from core.models.towers.qwen3_5_vision import VisionConfig, VisionTower
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import SumShape

LayerType = Literal["linear_attention", "full_attention"]
Section = Annotated[int, Field(ge=0)]

# ------------------------------------------------------------------ config


class RopeConfig(Settings):
    """`rope_parameters`, or `rope_scaling` with `rope_theta` beside it in older files."""

    rope_type: Literal["default", "mrope"] = "default"
    rope_theta: Positive = 10000.0
    partial_rotary_factor: float = Field(default=0.25, gt=0, le=1)
    mrope_section: tuple[Section, Section, Section] = (11, 11, 10)
    mrope_interleaved: Literal[True] = True

    @field_validator("mrope_section", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class TextConfig(AttentionSettings):
    """`text_config` of config.json, or the whole of it in a text-only folder."""

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

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Gather RoPE's keys in one place."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise ValueError('"rope_parameters" is not an object')
        rope = {"rope_type": rope.get("type", "default")} | rope
        beside = ("rope_theta", "partial_rotary_factor")
        values["rope_parameters"] = {key: values[key] for key in beside if key in values} | rope
        if isinstance(values.get("layer_types"), list):
            values["layer_types"] = tuple(values["layer_types"])
        return values

    @model_validator(mode="after")
    def _fits(self) -> TextConfig:
        self.check_heads(rotated=False)
        if self.linear_num_value_heads % self.linear_num_key_heads:
            raise ValueError('"linear_num_value_heads" is not a multiple of "linear_num_key_heads"')
        if self.layer_types and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError('"layer_types" does not name "num_hidden_layers" layers')
        if self.rotary_dim < 2 or self.rotary_dim % 2:
            raise ValueError('"head_dim" x "partial_rotary_factor" is not an even number')
        return self

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.rope_parameters.partial_rotary_factor)

    @property
    def types(self) -> tuple[LayerType, ...]:
        """The kind of every layer; without a list, every `full_attention_interval`-th is full."""
        every = self.full_attention_interval
        return self.layer_types or tuple(
            "linear_attention" if (index + 1) % every else "full_attention"
            for index in range(self.num_hidden_layers)
        )

    @property
    def attention_sizes(self) -> AttentionSizes:
        return replace(super().attention_sizes, rotary_dim=self.rotary_dim)

    @property
    def delta_net_sizes(self) -> GatedDeltaNetSizes:
        return GatedDeltaNetSizes(
            hidden=self.hidden_size,
            key_heads=self.linear_num_key_heads,
            key_dim=self.linear_key_head_dim,
            value_heads=self.linear_num_value_heads,
            value_dim=self.linear_value_head_dim,
            kernel=self.linear_conv_kernel_dim,
        )


class Qwen3_5Config(Settings):  # noqa: N801
    """What the model needs of config.json, whichever way it was written."""

    text_config: TextConfig
    vision_config: VisionConfig | None = None
    language_model_only: bool = False
    tie_word_embeddings: bool | None = None

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
        """Whether the head is the embedding; the top level wins over `text_config`."""
        here, inner = self.tie_word_embeddings, self.text_config.tie_word_embeddings
        return bool(inner if here is None else here)


def parse_config(values: Mapping[str, Any]) -> Qwen3_5Config:
    """config.json as a Qwen3_5Config; raises BrokenConfigError naming the keys at fault."""
    if values.get("model_type") == "qwen3_5_text":
        values = {"text_config": values, "language_model_only": True}
    return parse_settings(Qwen3_5Config, values)


# ------------------------------------------------------------------ block


def dense(config: TextConfig) -> MakeFeedForward:
    """One for all tokens."""

    def make(weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        return SwiGLU(weights, config.hidden_size, config.intermediate_size, input_norm=norm)

    return make


class Block:
    """x + mixer(norm x), then x + mlp(norm x); the mixer is a gated delta net or attention."""

    def __init__(
        self,
        weights: Weights,
        config: TextConfig,
        layer: int,
        feed_forward: MakeFeedForward,
        kind: LayerType,
    ) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.mixer_norm = ZeroCentredRMSNorm(weights.scope("input_layernorm"), width, epsilon)
        self.mlp_norm = ZeroCentredRMSNorm(
            weights.scope("post_attention_layernorm"), width, epsilon
        )
        self.mlp = feed_forward(weights.scope("mlp"), layer, self.mlp_norm.as_input)
        self._add = weights.ops(SumShape(width)).add
        self.mixer: GatedDeltaNet | GatedAttention
        input_norm = self.mixer_norm.as_input
        if kind == "linear_attention":
            scope = weights.scope("linear_attn")
            self.mixer = GatedDeltaNet(scope, config.delta_net_sizes, epsilon, input_norm)
        else:
            scope = weights.scope("self_attn")
            bias = config.attention_bias
            sizes = config.attention_sizes
            self.mixer = GatedAttention(scope, sizes, epsilon, bias=bias, input_norm=input_norm)

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.mixer_norm(hidden)
        if isinstance(self.mixer, GatedDeltaNet):
            mixed = self.mixer(inputs, memory, layer)
        else:
            mixed = self.mixer(inputs, rotations["full_attention"], memory, layer)
        normed, hidden = self.mlp_norm.of_sum(mixed, hidden)
        return self._add(hidden, self.mlp(normed, memory.is_step))

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.mixer.spec,)


def mtp_head(weights: Weights, text: TextConfig, feed_forward: MakeFeedForward) -> MTPHead | None:
    """The head, if the folder has one: its layer attends, and feeds forward as the last one does.

    Its rows are made of rows before them, which a checkpoint has: without recurrent layers there
    are places without one.
    """
    if weights.stored(MARK) is None or "linear_attention" not in text.types:
        return None
    scope, last = weights.scope(SCOPE), text.num_hidden_layers - 1
    block = Block(scope.scope("layers.0"), text, last, feed_forward, "full_attention")
    return MTPHead(scope, text.hidden_size, text.rms_norm_eps, block, block.mixer.spec)


# ------------------------------------------------------------------ model


class Qwen3_5Model(Decoder):  # noqa: N801
    """The text stack, its head, and the vision tower where the folder has one.

    A picture attends as text does. One token (n == 1) always takes the recurrent path.
    """

    def __init__(
        self,
        config: Qwen3_5Config,
        weights: Weights,
        device: torch.device,
        feed_forward: MakeFeedForward | None = None,
    ) -> None:
        """`feed_forward` makes those of its blocks; they are dense if it is None."""
        text, vision = config.text_config, config.vision
        scope = weights.scope("model.language_model")
        rope = text.rope_parameters
        rotate = InterleavedMRoPE(
            rope.rope_theta, text.rotary_dim, rope.mrope_section, device, weights.dtype
        )
        make = feed_forward or dense(text)
        stack = Stack(
            vocab_size=text.vocab_size,
            hidden_size=text.hidden_size,
            max_positions=text.max_position_embeddings,
            tied=config.tied,
            blocks=[
                Block(scope.scope(f"layers.{index}"), text, index, make, kind)
                for index, kind in enumerate(text.types)
            ],
            norm=ZeroCentredRMSNorm(scope.scope("norm"), text.hidden_size, text.rms_norm_eps),
            ropes={"full_attention": rotate},
            tower=VisionTower(weights.scope("model.visual", exact=True), vision, device)
            if vision
            else None,
            mtp=mtp_head(weights, text, make),
        )
        super().__init__(stack, weights, scope, device)


# ------------------------------------------------------------------ weight names

_FULL, _TEXT_ONLY = "model.language_model.", "model."


def published_names(config: Qwen3_5Config, found: Collection[str]) -> Callable[[str], str]:
    """From the names the model asks for to the folder's: text-only folders leave out a level."""
    spellings = (_FULL, _TEXT_ONLY) if config.vision else (_TEXT_ONLY, _FULL)
    present = [each for each in spellings if f"{each}embed_tokens.weight" in found]
    spelling = (present or spellings)[0]

    def published(name: str) -> str:
        return spelling + name.removeprefix(_FULL) if name.startswith(_FULL) else name

    return published
