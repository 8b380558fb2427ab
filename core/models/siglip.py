"""SigLIP vision towers (arXiv:2303.15343, arXiv:2502.14786): config and blocks, and Gemma 3's tower
and projector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator
from torch import Tensor

from core.layers.feed_forward import GeluMLP
from core.layers.linear import JoinedLinear, Linear
from core.layers.norm import LayerNorm, ZeroCentredRMSNorm
from core.models.settings import Count, Depth, Positive, Settings
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape


class SiglipConfig(Settings):
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
    def __init__(self, weights: Weights, config: SiglipConfig) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.head_dim = width // config.num_attention_heads
        shape = FullAttentionShape(config.num_attention_heads, self.head_dim)
        self._attention = weights.ops(shape).full_attention
        self.first_norm = LayerNorm(weights.scope("layer_norm1"), width, epsilon)
        self.second_norm = LayerNorm(weights.scope("layer_norm2"), width, epsilon)
        attention = weights.scope("self_attn")
        parts = [(name, width) for name in ("q_proj", "k_proj", "v_proj")]
        self.projections: Callable[[Tensor], tuple[Tensor, ...]]
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


def in_squares(hidden: Tensor, rows: int, columns: int) -> Tensor:
    """Rows of a grid in the order of its squares of 2 x 2."""
    grid = hidden.view(rows // 2, 2, columns // 2, 2, -1)
    return grid.transpose(1, 2).reshape(rows * columns, -1)


# ------------------------------------------------------------------ Gemma 3


class SquareConfig(SiglipConfig):
    if TYPE_CHECKING:  # subclasses have it, each at its own place in the order of fields
        image_size: int

    @model_validator(mode="after")
    def _fits(self) -> SquareConfig:
        if self.image_size < self.patch_size:
            raise ValueError('"image_size" is smaller than "patch_size"')
        return self

    @property
    def side(self) -> int:
        return self.image_size // self.patch_size


class VisionConfig(SquareConfig):
    model_type: Literal["siglip_vision_model"] = "siglip_vision_model"
    image_size: Count = 224


class VisionTower:
    """SigLIP without its pooling head, the mean of each square of patches, and a projection to
    `out_width`."""

    def __init__(
        self, weights: Weights, config: VisionConfig, tokens_per_side: int, out_width: int
    ) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.config, self.tokens_per_side = config, tokens_per_side
        tower = weights.scope("vision_tower.vision_model", exact=True)
        patches = tower.scope("embeddings.patch_embedding")
        # Its kernel equals its stride, so the published convolution is one matrix over patches.
        kernel = (width, config.num_channels, config.patch_size, config.patch_size)
        self._dtype = weights.dtype
        weight, bias = patches.tensor("weight", kernel), patches.tensor("bias", (width,))
        self.patches = weights.packed(weight.flatten(1), bias)
        positions = (config.side**2, width)
        self.positions = tower.tensor("embeddings.position_embedding.weight", positions)
        layers = tower.scope("encoder").layers(range(config.num_hidden_layers))
        self.blocks = [VisionBlock(each, config) for each, _ in layers]
        self.last_norm = LayerNorm(tower.scope("post_layernorm"), width, epsilon)
        projector = weights.scope("multi_modal_projector", exact=True)
        self.pooled_norm = ZeroCentredRMSNorm(projector.scope("mm_soft_emb_norm"), width, epsilon)
        # Stored [in, out], unlike every other matrix.
        projection = projector.tensor("mm_input_projection_weight", (width, out_width))
        self.projection = weights.packed(projection.T)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches row by row; `rows` and `columns` are always the config's side."""
        assert rows == columns == self.config.side
        hidden = self.patches(pixels.to(self._dtype))
        hidden = hidden + self.positions
        for block in self.blocks:
            check()
            hidden = block(hidden)
        pooled = self._pool(self.last_norm(hidden))
        return self.projection(self.pooled_norm(pooled))

    def _pool(self, hidden: Tensor) -> Tensor:
        tokens, each = self.tokens_per_side, self.config.side // self.tokens_per_side
        squares = hidden.view(tokens, each, tokens, each, -1)
        return squares.float().mean((1, 3)).to(hidden.dtype).flatten(0, 1)
