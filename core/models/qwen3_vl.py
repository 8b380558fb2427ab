"""Qwen3-VL, dense and with sparse experts: Qwen3 under interleaved M-RoPE, with Qwen3.5's tower and
DeepStack: results of some of its blocks are added to a picture's tokens after the first text
layers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from pydantic import model_validator

from core.layers.norm import RMSNorm
from core.layers.rope import InterleavedMRoPE
from core.models import llama, qwen3_5_vision
from core.models.decoder import Decoder, Family
from core.models.qwen3_5_vision import VisionTower
from core.models.rope import RopeSettings
from core.models.settings import Count, Experts, ExpertSettings, Index, Positive, Settings, is_tied
from core.weights.plan import Weights

# ------------------------------------------------------------------ config


class RopeConfig(RopeSettings):
    rope_type: Literal["default"] = "default"
    rope_theta: Positive = 500_000.0
    mrope_section: tuple[Index, Index, Index] = (24, 20, 20)
    mrope_interleaved: Literal[True] = True


class TextConfig(llama.LlamaConfig):
    rope_parameters: RopeConfig = RopeConfig()


class MoeTextConfig(TextConfig, ExpertSettings):
    intermediate_size: Count = 5632
    num_experts: Experts = 60
    num_experts_per_tok: Count = 4
    moe_intermediate_size: Count = 1408


class VisionConfig(qwen3_5_vision.VisionConfig):
    deepstack_visual_indexes: tuple[int, ...] = (8, 16, 24)

    @model_validator(mode="after")
    def _in_order(self) -> VisionConfig:
        edges = (-1, *self.deepstack_visual_indexes, self.depth)
        if any(first >= second for first, second in pairwise(edges)):
            raise ValueError('"deepstack_visual_indexes" are not blocks of the tower, in order')
        return self


class Qwen3VLConfig(Settings):
    text_config: TextConfig
    vision_config: VisionConfig | None = None
    tie_word_embeddings: bool | None = None

    # Defaults of transformers that differ from Qwen3's, and what is fixed in this family.
    text_defaults: ClassVar[dict[str, Any]] = {
        "num_key_value_heads": 32,
        "max_position_embeddings": 128_000,
    }
    fixed: ClassVar[dict[str, Any]] = {"model_type": "qwen3"}

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        text = given.get("text_config")
        if isinstance(text, dict):
            given["text_config"] = cls.text_defaults | text | cls.fixed
        return given

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
        return len(self.vision_config.deepstack_visual_indexes) if self.vision_config else 0

    @property
    def tied(self) -> bool:
        return is_tied(self, usual=False)


class Qwen3VLMoeConfig(Qwen3VLConfig):
    """The weights of a token's experts add up to one whatever "norm_topk_prob" is."""

    text_config: MoeTextConfig

    text_defaults: ClassVar[dict[str, Any]] = Qwen3VLConfig.text_defaults | {
        "num_key_value_heads": 16
    }
    fixed: ClassVar[dict[str, Any]] = {"model_type": "qwen3_moe", "norm_topk_prob": True}


# ------------------------------------------------------------------ model


def build(config: Qwen3VLConfig, weights: Weights, device: torch.device) -> Decoder:
    text, vision = config.text_config, config.vision_config
    scope, rope = weights.scope("model.language_model"), text.rope_parameters
    rotate = InterleavedMRoPE(
        rope.rope_theta, text.head_dim, rope.mrope_section, device, weights.dtype
    )
    tower = weights.scope("model.visual", exact=True)
    return Decoder(
        weights,
        scope,
        device,
        text,
        tied=config.tied,
        blocks=llama.blocks(text, scope),
        norm=RMSNorm(scope.scope("norm"), text.hidden_size, text.rms_norm_eps),
        ropes={"full_attention": rotate},
        tower=VisionTower(tower, vision, device) if vision else None,
        image_layers=config.image_layers,
    )


FAMILY = Family("Qwen3VLModel", Qwen3VLConfig, build)
MOE_FAMILY = Family("Qwen3VLMoeModel", Qwen3VLMoeConfig, build)
