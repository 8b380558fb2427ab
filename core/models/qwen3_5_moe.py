"""Qwen3.5 MoE and its kin (3.6): Qwen3.5 whose feed-forward layers are sparse experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from core.models.config.expert_settings import ExpertSettings
from core.models.config.settings import Count, Experts, parse_settings
from core.models.qwen3_5 import Qwen3_5Config, Qwen3_5Model, TextConfig, dense
from core.weights.plan import Weights


class MoeTextConfig(TextConfig, ExpertSettings):
    """`text_config` of config.json, or the whole of it in a text-only folder."""

    intermediate_size: Count = 5632  # of dense layers, which few of these models have
    num_experts: Experts = 256
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 512
    shared_expert_intermediate_size: Count = 512


class Qwen3_5MoeConfig(Qwen3_5Config):  # noqa: N801 - the family is written so
    """What the model needs of config.json, whichever way it was written."""

    text_config: MoeTextConfig


def parse_config(values: Mapping[str, Any]) -> Qwen3_5MoeConfig:
    """config.json as a Qwen3_5MoeConfig; raises BrokenConfigError naming the keys at fault."""
    if values.get("model_type") == "qwen3_5_moe_text":
        values = {"text_config": values, "language_model_only": True}
    return parse_settings(Qwen3_5MoeConfig, values)


class Qwen3_5MoeModel(Qwen3_5Model):  # noqa: N801 - the family is written so
    """The text stack, its head, and the vision tower where the folder has one."""

    def __init__(self, config: Qwen3_5MoeConfig, weights: Weights, device: torch.device) -> None:
        text = config.text_config
        feed_forward = text.feed_forward(text.hidden_size, dense(text))
        super().__init__(config, weights, device, feed_forward)
