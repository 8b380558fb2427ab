"""LFM2-VL: config, vision tower, projector, model, weight names.

LFM2's text stack behind a SigLIP 2 tower that sees pictures in their own shape. A large picture is
cut into tiles, each of which the tower sees alone (core.vision.tiles); its tokens attend as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.linear import Linear
from core.layers.mlp import GeluMLP
from core.layers.norm import LayerNorm
from core.models import lfm2
from core.models.config.settings import Count, Settings, parse_settings
from core.models.decoder import Decoder
from core.models.lfm2 import Lfm2Config
from core.models.towers.siglip import SiglipConfig, VisionBlock
from core.weights.plan import Weights

_EPSILON = 1e-5  # of the projector's LayerNorm; not in the config

# ------------------------------------------------------------------ config


class VisionConfig(SiglipConfig):
    """`vision_config` of config.json; the table has `num_patches` positions, a square of them."""

    model_type: Literal["siglip2_vision_model"] = "siglip2_vision_model"
    num_patches: Count = 256

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if math.isqrt(self.num_patches) ** 2 != self.num_patches:
            raise ValueError('"num_patches" is not a square')
        return self


class Lfm2VlConfig(Settings):
    """What the model needs of config.json."""

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
        """Whether the head is the embedding; the older spelling wins, as in transformers."""
        return self.tie_word_embeddings if self.tie_embedding is None else self.tie_embedding


def parse_config(values: Mapping[str, Any]) -> Lfm2VlConfig:
    """config.json as an Lfm2VlConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(Lfm2VlConfig, values)


# ------------------------------------------------------------------ tower


class VisionTower:
    """Patch and position embedding, blocks, a last norm; then the projector."""

    def __init__(self, weights: Weights, config: Lfm2VlConfig, vision: VisionConfig) -> None:
        width, epsilon = vision.hidden_size, vision.layer_norm_eps
        self.config, self._side = vision, config.downsample_factor
        tower = weights.scope("model.vision_tower", exact=True)
        embeddings, self._dtype = tower.scope("embeddings"), weights.dtype
        patch_width = vision.num_channels * vision.patch_size**2
        self.patches = Linear(embeddings, "patch_embedding", patch_width, width, bias=True)
        positions = (vision.num_patches, width)
        self.positions = embeddings.tensor("position_embedding.weight", positions)
        self.blocks = [
            VisionBlock(tower.scope(f"encoder.layers.{index}"), vision)
            for index in range(vision.num_hidden_layers)
        ]
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
        """[rows * columns, patch width], row by row -> [tokens, hidden_size of the text stack].

        `rows` and `columns` are multiples of `downsample_factor`; `check` is called before every
        block and may raise.
        """
        hidden = self.patches(pixels.to(self._dtype))
        hidden = hidden + self._position_embedding(rows, columns).to(hidden.dtype)
        for block in self.blocks:
            check()
            hidden = block(hidden)
        merged = self._merged(self.last_norm(hidden), rows, columns)
        return self.projector(merged if self.merged_norm is None else self.merged_norm(merged))

    def _position_embedding(self, rows: int, columns: int) -> Tensor:
        """The square table resized to the grid, as a picture is, row by row; float32."""
        side = math.isqrt(self.config.num_patches)
        table = self.positions.float().view(1, side, side, -1).permute(0, 3, 1, 2)
        resized = F.interpolate(table, (rows, columns), mode="bilinear", antialias=True)
        return resized.flatten(2)[0].T

    def _merged(self, hidden: Tensor, rows: int, columns: int) -> Tensor:
        """The patches of each square of neighbours side by side: row by row, as the squares."""
        side = self._side
        squares = hidden.view(rows // side, side, columns // side, side, -1).transpose(1, 2)
        return squares.reshape(-1, side * side * hidden.shape[1])


# ------------------------------------------------------------------ model


class Lfm2VlModel(Decoder):
    """The text stack, its head, and the vision tower where the folder has one."""

    def __init__(self, config: Lfm2VlConfig, weights: Weights, device: torch.device) -> None:
        scope, vision = weights.scope("model.language_model"), config.vision_config
        tower = VisionTower(weights, config, vision) if vision else None
        stack = lfm2.stack_of(config.text_config, scope, device, config.tied, tower)
        super().__init__(stack, weights, scope, device)


# ------------------------------------------------------------------ weight names

# What the tower is called, in files of transformers 5 and of 4.
_TOWER, _OLDER_TOWER = "model.vision_tower.", "model.vision_tower.vision_model."


def published_names(config: Lfm2VlConfig, found: Collection[str]) -> Callable[[str], str]:
    """From the names that layers ask for to the folder's."""
    older = f"{_OLDER_TOWER}post_layernorm.weight" in found

    def published(name: str) -> str:
        if older and name.startswith(_TOWER):
            return _OLDER_TOWER + name.removeprefix(_TOWER)
        return lfm2.published_name(name)

    return published
