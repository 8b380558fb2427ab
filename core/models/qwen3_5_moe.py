"""Qwen3.5 MoE and its kin (3.6), and its predecessor Qwen3-Next: Qwen3.5 with sparse experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.models.decoder import Family
from core.models.qwen3_5 import Qwen3_5Config, TextConfig, build, published_names
from core.models.settings import Count, Experts, ExpertSettings


class MoeTextConfig(TextConfig, ExpertSettings):
    """`text_config` of config.json, or the whole of it in a text-only folder."""

    intermediate_size: Count = 5632  # of dense layers, which few of these models have
    num_experts: Experts = 256
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 512
    shared_expert_intermediate_size: Count = 512


class Qwen3_5MoeConfig(Qwen3_5Config):  # noqa: N801 - the family is written so
    """config.json; a text-only folder has the keys of `text_config` at the top."""

    text_config: MoeTextConfig

    text_only: ClassVar[str] = "qwen3_5_moe_text"


class NextTextConfig(MoeTextConfig):
    """The whole of config.json of Qwen3-Next."""

    num_experts: Experts = 512
    num_experts_per_tok: Count = 10

    by_key_head: ClassVar[bool] = True


class Qwen3NextConfig(Qwen3_5MoeConfig):
    """config.json of Qwen3-Next, which is always text only."""

    text_config: NextTextConfig

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return {"text_config": values, "language_model_only": True}


FAMILY = Family("Qwen3_5MoeModel", Qwen3_5MoeConfig, build, published_names)
NEXT_FAMILY = Family("Qwen3NextModel", Qwen3NextConfig, build, published_names)
