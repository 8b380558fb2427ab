"""Qwen3 MoE (text only): Qwen3 whose feed-forward layers are sparse experts.

Nothing but keys and values is remembered, as in all pure transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from core.models.config.expert_settings import ExpertSettings
from core.models.config.settings import Count, Experts, parse_settings
from core.models.llama import LlamaConfig, LlamaModel, dense
from core.weights.plan import Weights


class Qwen3MoeConfig(LlamaConfig, ExpertSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

    model_type: Literal["qwen3_moe"]
    intermediate_size: Count = 6144
    num_experts: Experts = 128
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 768
    norm_topk_prob: bool = False


def parse_config(values: Mapping[str, Any]) -> Qwen3MoeConfig:
    """config.json as a Qwen3MoeConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(Qwen3MoeConfig, values)


class Qwen3MoeModel(LlamaModel):
    """The text stack and its head."""

    def __init__(self, config: Qwen3MoeConfig, weights: Weights, device: torch.device) -> None:
        feed_forward = config.feed_forward(config.hidden_size, dense(config))
        super().__init__(config, weights, device, feed_forward)
