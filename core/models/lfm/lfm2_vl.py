"""LFM2-VL: LFM2 with a SigLIP 2 tower that sees pictures in their own shape, large ones tile by
tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.feed_forward import GeluMLP
from core.layers.linear import Linear
from core.layers.norm import LayerNorm
from core.models.decoder import Decoder, Family, with_prefixes
from core.models.lfm import lfm2
from core.models.lfm.lfm2 import Lfm2Config
from core.models.settings import Count, Settings
from core.models.siglip import SiglipConfig, VisionBlock
from core.weights.plan import Weights

_EPSILON = 1e-5  # of the projector's LayerNorm; not in the config

# ------------------------------------------------------------------ config


class VisionConfig(SiglipConfig):
    """`num_patches` positions form a square table."""

    model_type: Literal["siglip2_vision_model"] = "siglip2_vision_model"
    num_patches: Count = 256

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if math.isqrt(self.num_patches) ** 2 != self.num_patches:
            raise ValueError('"num_patches" is not a square')
        return self


class Lfm2VlConfig(Settings):
    text_config: Lfm2Config
    vision_config: VisionConfig | None = None
    downsample_factor: Count = 2
    projector_hidden_act: Literal["gelu"] = "gelu"
    projector_hidden_size: Count = 2560
    projector_bias: bool = True
    projector_use_layernorm: bool = True
    vision_feature_layer: Literal[-1] = -1
    tie_embedding: bool | None = None
    tie_word_embeddings: bool = True

    @property
    def tied(self) -> bool:
        return self.tie_word_embeddings if self.tie_embedding is None else self.tie_embedding


# ------------------------------------------------------------------ tower


class VisionTower:
    def __init__(self, weights: Weights, config: Lfm2VlConfig, vision: VisionConfig) -> None:
        width, epsilon = vision.hidden_size, vision.layer_norm_eps
        self.config, self._side = vision, config.downsample_factor
        tower = weights.scope("model.vision_tower", exact=True)
        embeddings, self._dtype = tower.scope("embeddings"), weights.dtype
        patch_width = vision.num_channels * vision.patch_size**2
        self.patches = Linear(embeddings, "patch_embedding", patch_width, width, bias=True)
        positions = (vision.num_patches, width)
        self.positions = embeddings.tensor("position_embedding.weight", positions)
        layers = tower.scope("encoder").layers(range(vision.num_hidden_layers))
        self.blocks = [VisionBlock(each, vision) for each, _ in layers]
        self.last_norm = LayerNorm(tower.scope("post_layernorm"), width, epsilon)
        projector = weights.scope("model.multi_modal_projector", exact=True)
        merged, inner = width * self._side**2, config.projector_hidden_size
        self.merged_norm = (
            LayerNorm(projector.scope("layer_norm"), merged, _EPSILON)
            if config.projector_use_layernorm
            else None
        )
        names, out_width = ("linear_1", "linear_2"), config.text_config.hidden_size
        self.projector = GeluMLP(
            projector, merged, inner, out_width, "none", names, bias=config.projector_bias
        )

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches row by row; `rows` and `columns` are multiples of `downsample_factor`."""
        hidden = self.patches(pixels.to(self._dtype))
        hidden = hidden + self._position_embedding(rows, columns).to(hidden.dtype)
        for block in self.blocks:
            check()
            hidden = block(hidden)
        merged = self._merged(self.last_norm(hidden), rows, columns)
        return self.projector(merged if self.merged_norm is None else self.merged_norm(merged))

    def _position_embedding(self, rows: int, columns: int) -> Tensor:
        """The square table resized to the grid like a picture; float32."""
        side = math.isqrt(self.config.num_patches)
        table = self.positions.float().view(1, side, side, -1).permute(0, 3, 1, 2)
        resized = F.interpolate(table, (rows, columns), mode="bilinear", antialias=True)
        return resized.flatten(2)[0].T

    def _merged(self, hidden: Tensor, rows: int, columns: int) -> Tensor:
        """The patches of each square side by side, row by row."""
        side = self._side
        squares = hidden.view(rows // side, side, columns // side, side, -1).transpose(1, 2)
        return squares.reshape(-1, side * side * hidden.shape[1])


# ------------------------------------------------------------------ model


def build(config: Lfm2VlConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, vision = weights.scope("model.language_model"), config.vision_config
    tower = VisionTower(weights, config, vision) if vision else None
    return lfm2.decoder(config.text_config, weights, scope, device, config.tied, tower)


# The tower's scope in files of transformers 5, and of 4.
_TOWER, _OLDER_TOWER = "model.vision_tower.", "model.vision_tower.vision_model."


def published_names(config: Lfm2VlConfig, found: Collection[str]) -> Callable[[str], str]:
    rename = with_prefixes(found, (_TOWER, "post_layernorm.weight", (_TOWER, _OLDER_TOWER)))
    return lambda name: rename(lfm2.published_name(name))


FAMILY = Family("Lfm2VlModel", Lfm2VlConfig, build, published_names)
