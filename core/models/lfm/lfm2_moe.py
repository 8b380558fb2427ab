"""LFM2-MoE (text only): LFM2 with sparse experts in all blocks but the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import model_validator

from core.layers.feed_forward import FeedForward, SparseExperts
from core.models.decoder import Family
from core.models.lfm.lfm2 import Lfm2Config, build, published_names
from core.models.settings import Count, Experts, Index, Positive
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Routing


class Lfm2MoeConfig(Lfm2Config):
    """The first `num_dense_layers` blocks have an MLP of `intermediate_size`, which is not
    adjusted."""

    intermediate_size: Count = 7_168
    num_dense_layers: Index = 2
    num_experts: Experts = 32
    num_experts_per_tok: Count = 4
    moe_intermediate_size: Count = 1_792
    use_expert_bias: Literal[True] = True
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 1.0

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return super().respell({"hidden_size": 2_048} | given, values)

    @model_validator(mode="after")
    def _enough_experts(self) -> Lfm2MoeConfig:
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self

    @property
    def mlp_width(self) -> int:
        return self.intermediate_size

    @property
    def routing(self) -> Routing:
        return Routing(
            k=self.num_experts_per_tok,
            normalise=self.norm_topk_prob,
            sigmoid=True,
            scale=self.routed_scaling_factor,
        )

    def feed_forward(self, weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        if layer < self.num_dense_layers:
            return super().feed_forward(weights, layer, norm)
        width, inner = self.hidden_size, self.moe_intermediate_size
        shape = ExpertShape(width, inner, self.num_experts, self.routing, shared=False)
        return SparseExperts(weights, width, shape, input_norm=norm)


FAMILY = Family("Lfm2MoeModel", Lfm2MoeConfig, build, published_names)
