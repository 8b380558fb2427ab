"""Sparse experts as config.json spells them, for the families of Qwen that have them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from core.layers.experts import ExpertSizes, FeedForward, MakeFeedForward, SparseExperts
from core.models.config.settings import Count, Depth, Experts, Settings
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import Routing


class ExpertSettings(Settings):
    """The keys about experts; families give those that may be left out the values they have there.

    Layers in `mlp_only_layers`, and all but each `decoder_sparse_step`-th, are dense.
    """

    num_experts: Experts
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    norm_topk_prob: bool = True
    shared_expert_intermediate_size: Annotated[int, Field(ge=0, le=2**24)] = 0
    decoder_sparse_step: Depth = 1
    mlp_only_layers: tuple[Annotated[int, Field(ge=0)], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _known_spelling(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "num_experts" not in values and "num_local_experts" in values:
            values["num_experts"] = values["num_local_experts"]
        if isinstance(values.get("mlp_only_layers"), list):
            values["mlp_only_layers"] = tuple(values["mlp_only_layers"])
        return values

    @model_validator(mode="after")
    def _enough_experts(self) -> ExpertSettings:
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer, by its place in the stack, has experts."""
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0

    def feed_forward(self, hidden: int, dense: MakeFeedForward) -> MakeFeedForward:
        """Makes sparse layers over rows of `hidden` numbers, and where there are none, `dense`."""
        sizes = self.expert_sizes(hidden)

        def make(weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
            if self.is_sparse(layer):
                return SparseExperts(weights, sizes, norm)
            return dense(weights, layer, norm)

        return make

    def expert_sizes(self, hidden: int) -> ExpertSizes:
        """The experts of a layer over rows of `hidden` numbers."""
        return ExpertSizes(
            hidden=hidden,
            inner=self.moe_intermediate_size,
            count=self.num_experts,
            routing=Routing(self.num_experts_per_tok, self.norm_topk_prob),
            shared=self.shared_expert_intermediate_size or None,
        )
