"""Qwen3-VL (dense): config, model, weight names.

Qwen3's text stack under interleaved M-RoPE, and the vision tower of Qwen3.5 with DeepStack: what
some of the tower's blocks give is part of a picture's embedding, and is added to its tokens after
the first layers of the text stack. Nothing but keys and values is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, field_validator, model_validator

from core.layers.experts import MakeFeedForward
from core.layers.norm import RMSNorm
from core.layers.rope import InterleavedMRoPE
from core.models import llama
from core.models.config.rope_settings import RopeSettings
from core.models.config.settings import Positive, Settings, parse_settings
from core.models.decoder import Decoder, Stack
from core.models.towers import qwen3_5_vision
from core.models.towers.qwen3_5_vision import VisionTower
from core.weights.plan import Weights

Section = Annotated[int, Field(ge=0)]

# ------------------------------------------------------------------ config


class RopeConfig(RopeSettings):
    """`rope_parameters`, in either spelling."""

    rope_type: Literal["default"] = "default"
    rope_theta: Positive = 500_000.0
    mrope_section: tuple[Section, Section, Section] = (24, 20, 20)
    mrope_interleaved: Literal[True] = True

    @field_validator("mrope_section", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class TextConfig(llama.LlamaConfig):
    """`text_config` of config.json: Qwen3's but for the rotation."""

    rope_parameters: RopeConfig = RopeConfig()


class VisionConfig(qwen3_5_vision.VisionConfig):
    """`vision_config` of config.json; `deepstack_visual_indexes` name blocks of the tower."""

    deepstack_visual_indexes: tuple[int, ...] = (8, 16, 24)

    @model_validator(mode="after")
    def _in_order(self) -> VisionConfig:
        edges = (-1, *self.deepstack_visual_indexes, self.depth)
        if any(first >= second for first, second in pairwise(edges)):
            raise ValueError('"deepstack_visual_indexes" are not blocks of the tower, in order')
        return self


class Qwen3VLConfig(Settings):
    """What the model needs of config.json."""

    text_config: TextConfig
    vision_config: VisionConfig | None = None
    tie_word_embeddings: bool | None = None

    @model_validator(mode="after")
    def _fits(self) -> Qwen3VLConfig:
        text, vision = self.text_config, self.vision_config
        if vision and vision.out_hidden_size != text.hidden_size:
            raise ValueError('"vision_config.out_hidden_size" is not "text_config.hidden_size"')
        if self.image_layers > text.num_hidden_layers:
            raise ValueError('"vision_config.deepstack_visual_indexes" are more than text layers')
        return self

    @property
    def image_layers(self) -> int:
        """Layers of the text stack after which a picture's further features are added."""
        return len(self.vision_config.deepstack_visual_indexes) if self.vision_config else 0

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding; the top level wins over `text_config`."""
        here, inner = self.tie_word_embeddings, self.text_config.tie_word_embeddings
        return inner if here is None else here


# What transformers takes for keys that config.json may leave out, where Qwen3 differs.
_LEFT_OUT = {"num_key_value_heads": 32, "max_position_embeddings": 128_000}


def parse_config(values: Mapping[str, Any]) -> Qwen3VLConfig:
    """config.json as a Qwen3VLConfig; raises BrokenConfigError naming the keys at fault."""
    text = values.get("text_config")
    if isinstance(text, dict):
        values = {**values, "text_config": _LEFT_OUT | text | {"model_type": "qwen3"}}
    return parse_settings(Qwen3VLConfig, values)


# ------------------------------------------------------------------ model


class Qwen3VLModel(Decoder):
    """The text stack, its head, and the vision tower where the folder has one."""

    def __init__(
        self,
        config: Qwen3VLConfig,
        weights: Weights,
        device: torch.device,
        feed_forward: MakeFeedForward | None = None,
    ) -> None:
        """`feed_forward` makes those of the text stack's blocks; they are dense if it is None."""
        make = feed_forward or llama.dense(config.text_config)
        text, vision = config.text_config, config.vision_config
        scope = weights.scope("model.language_model")
        rope = text.rope_parameters
        rotate = InterleavedMRoPE(
            rope.rope_theta, text.head_dim, rope.mrope_section, device, weights.dtype
        )
        stack = Stack(
            vocab_size=text.vocab_size,
            hidden_size=text.hidden_size,
            max_positions=text.max_position_embeddings,
            tied=config.tied,
            blocks=[
                llama.Block(scope.scope(f"layers.{index}"), text, index, make)
                for index in range(text.num_hidden_layers)
            ],
            norm=RMSNorm(scope.scope("norm"), text.hidden_size, text.rms_norm_eps),
            ropes={"full_attention": rotate},
            tower=VisionTower(weights.scope("model.visual", exact=True), vision, device)
            if vision
            else None,
            image_layers=config.image_layers,
        )
        super().__init__(stack, weights, scope, device)
