"""What towers of the SigLIP kind share: their config, and the blocks over all patches of a picture.

SigLIP: Zhai et al. 2023, arXiv:2303.15343; SigLIP 2: Tschannen et al. 2025, arXiv:2502.14786.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.mlp import GeluMLP
from core.layers.norm import LayerNorm
from core.models.config.settings import Count, Depth, Positive, Settings
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape


class SiglipConfig(Settings):
    """What `vision_config` of config.json says of either."""

    hidden_size: Count = 768
    intermediate_size: Count = 3072
    num_hidden_layers: Depth = 12
    num_attention_heads: Count = 12
    num_channels: Literal[3] = 3
    patch_size: Count = 16
    hidden_act: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    layer_norm_eps: Positive = 1e-6

    @model_validator(mode="after")
    def _heads_fit(self) -> SiglipConfig:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError('"hidden_size" is not a multiple of "num_attention_heads"')
        return self


class VisionBlock:
    """x + attention(norm x), then x + mlp(norm x), over all patches of one picture."""

    def __init__(self, weights: Weights, config: SiglipConfig) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.head_dim = width // config.num_attention_heads
        shape = FullAttentionShape(config.num_attention_heads, self.head_dim)
        self._attention = weights.ops(shape).full_attention
        self.first_norm = LayerNorm(weights.scope("layer_norm1"), width, epsilon)
        self.second_norm = LayerNorm(weights.scope("layer_norm2"), width, epsilon)
        attention = weights.scope("self_attn")
        parts = [(name, width) for name in ("q_proj", "k_proj", "v_proj")]
        self.projections = JoinedLinear(attention, parts, width, bias=True)
        self.output = Linear(attention, "out_proj", width, width, bias=True)
        inner = config.intermediate_size
        self.mlp = GeluMLP(weights.scope("mlp"), width, inner, width, "tanh", ("fc1", "fc2"))

    def __call__(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self._attend(self.first_norm(hidden))
        return hidden + self.mlp(self.second_norm(hidden))

    def _attend(self, hidden: Tensor) -> Tensor:
        heads = (-1, self.head_dim)
        queries, keys, values = (each.unflatten(1, heads) for each in self.projections(hidden))
        attended = self._attention(queries, keys, values, self.head_dim**-0.5)
        return self.output(attended.flatten(1))
