"""Qwen3-Next (text only): Qwen3.5 MoE's elder, which lays its weights out by key head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.layers.gated_deltanet import GatedDeltaNetSizes
from core.models.config.settings import Count, Experts, parse_settings
from core.models.qwen3_5_moe import MoeTextConfig, Qwen3_5MoeConfig, Qwen3_5MoeModel


class NextTextConfig(MoeTextConfig):
    """The whole of config.json."""

    num_experts: Experts = 512
    num_experts_per_tok: Count = 10

    @property
    def delta_net_sizes(self) -> GatedDeltaNetSizes:
        return replace(super().delta_net_sizes, by_key_head=True)


class Qwen3NextConfig(Qwen3_5MoeConfig):
    """What the model needs of config.json."""

    text_config: NextTextConfig


def parse_config(values: Mapping[str, Any]) -> Qwen3NextConfig:
    """config.json as a Qwen3NextConfig; raises BrokenConfigError naming the keys at fault."""
    whole = {"text_config": values, "language_model_only": True}
    return parse_settings(Qwen3NextConfig, whole)


class Qwen3NextModel(Qwen3_5MoeModel):
    """The text stack and its head."""
