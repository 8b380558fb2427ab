"""Gemma 3's eye: a SigLIP tower over a square picture, and the projector behind it.

Knows how one picture, already cut into patches row by row, becomes rows of the language model's
width: SigLIP (`siglip`) without its pooling head, then the mean of each square of neighbouring
patches. Decoding, resizing and patch order are core.vision's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import model_validator
from torch import Tensor

from core.layers.norm import LayerNorm, ZeroCentredRMSNorm
from core.models.config.settings import Count
from core.models.towers.siglip import SiglipConfig, VisionBlock
from core.weights.plan import Weights


class VisionConfig(SiglipConfig):
    """`vision_config` of config.json; sizes in pixels."""

    model_type: Literal["siglip_vision_model"] = "siglip_vision_model"
    image_size: Count = 224

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if self.image_size < self.patch_size:
            raise ValueError('"image_size" is smaller than "patch_size"')
        return self

    @property
    def side(self) -> int:
        """Patches on a side of the square."""
        return self.image_size // self.patch_size


class VisionTower:
    """Patch and position embedding, blocks, a last norm; then pooling and projection.

    `tokens_per_side` squared is what a picture costs; `out_width` is the language model's width.
    """

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
        self.blocks = [
            VisionBlock(tower.scope(f"encoder.layers.{index}"), config)
            for index in range(config.num_hidden_layers)
        ]
        self.last_norm = LayerNorm(tower.scope("post_layernorm"), width, epsilon)
        projector = weights.scope("multi_modal_projector", exact=True)
        self.pooled_norm = ZeroCentredRMSNorm(projector.scope("mm_soft_emb_norm"), width, epsilon)
        # Stored [in, out], unlike every other matrix.
        projection = projector.tensor("mm_input_projection_weight", (width, out_width))
        self.projection = weights.packed(projection.T)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """[side * side, patch width], row by row -> [tokens, out_width].

        `rows` and `columns` are the one side there is; `check` is called before every block and
        may raise.
        """
        assert rows == columns == self.config.side
        hidden = self.patches(pixels.to(self._dtype))
        hidden = hidden + self.positions
        for block in self.blocks:
            check()
            hidden = block(hidden)
        pooled = self._pool(self.last_norm(hidden))
        return self.projection(self.pooled_norm(pooled))

    def _pool(self, hidden: Tensor) -> Tensor:
        """The mean of each square of patches that becomes one token, row by row."""
        tokens, each = self.tokens_per_side, self.config.side // self.tokens_per_side
        squares = hidden.view(tokens, each, tokens, each, -1)
        return squares.float().mean((1, 3)).to(hidden.dtype).flatten(0, 1)
