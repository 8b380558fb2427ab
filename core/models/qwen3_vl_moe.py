"""Qwen3-VL MoE: Qwen3-VL whose feed-forward layers are sparse experts, as in Qwen3 MoE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from core.models.config.expert_settings import ExpertSettings
from core.models.config.settings import Count, Experts, parse_settings
from core.models.llama import dense
from core.models.qwen3_vl import Qwen3VLConfig, Qwen3VLModel, TextConfig
from core.weights.plan import Weights


class MoeTextConfig(TextConfig, ExpertSettings):
    """`text_config` of config.json; what it leaves out has the value that transformers gives it."""

    intermediate_size: Count = 5632
    num_experts: Experts = 60
    num_experts_per_tok: Count = 4
    moe_intermediate_size: Count = 1408


class Qwen3VLMoeConfig(Qwen3VLConfig):
    """What the model needs of config.json."""

    text_config: MoeTextConfig


_LEFT_OUT = {"num_key_value_heads": 16, "max_position_embeddings": 128_000}


def parse_config(values: Mapping[str, Any]) -> Qwen3VLMoeConfig:
    """config.json as a Qwen3VLMoeConfig; raises BrokenConfigError naming the keys at fault.

    The weights of a token's experts always add up to one, whatever "norm_topk_prob" says.
    """
    text = values.get("text_config")
    if isinstance(text, dict):
        fixed = {"model_type": "qwen3_moe", "norm_topk_prob": True}
        values = {**values, "text_config": _LEFT_OUT | text | fixed}
    return parse_settings(Qwen3VLMoeConfig, values)


class Qwen3VLMoeModel(Qwen3VLModel):
    """The text stack, its head, and the vision tower where the folder has one."""

    def __init__(self, config: Qwen3VLMoeConfig, weights: Weights, device: torch.device) -> None:
        text = config.text_config
        super().__init__(config, weights, device, text.feed_forward(text.hidden_size, dense(text)))
