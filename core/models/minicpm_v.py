"""MiniCPM-V 4.6 and 4.7: Qwen3.5's decoder with a SigLIP tower that merges patches on the way. A
large picture is encoded whole and then slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.feed_forward import GeluMLP
from core.layers.linear import JoinedLinear, Linear
from core.layers.norm import LayerNorm
from core.models import qwen3_5
from core.models.decoder import Decoder, Family
from core.models.qwen3_5 import TextConfig
from core.models.settings import Count, Index, Settings
from core.models.siglip import SiglipConfig, SquareConfig, VisionBlock, in_squares
from core.weights.plan import Weights

_EPSILON = 1e-6  # of the projector's LayerNorm; not in the config
_SQUARE = 4  # patches that each of both mergers makes one

# ------------------------------------------------------------------ config


class MiniCpmVisionConfig(SquareConfig):
    model_type: Literal["minicpmv4_6_vision", "minicpmv4_7_vision"] = "minicpmv4_6_vision"
    image_size: Count = 224
    window_kernel_size: tuple[Literal[2], Literal[2]] = (2, 2)


class MiniCpmVConfig(Settings):
    text_config: TextConfig
    vision_config: MiniCpmVisionConfig
    insert_layer_id: Index = 6
    drop_vision_last_layer: Literal[False] = False
    downsample_mode: Literal["16x"] = "16x"
    merge_kernel_size: tuple[Literal[2], Literal[2]] = (2, 2)
    merger_times: Literal[1] = 1
    tie_word_embeddings: bool = False

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return {"vision_config": {}} | given

    @model_validator(mode="after")
    def _fits(self) -> MiniCpmVConfig:
        if self.insert_layer_id >= self.vision_config.num_hidden_layers:
            raise ValueError('"insert_layer_id" is not one of the tower\'s layers')
        return self


# ------------------------------------------------------------------ tower


class WindowMerger:
    """Attention within squares of four patches, then one patch of each."""

    def __init__(self, weights: Weights, config: SiglipConfig) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self._heads = config.num_attention_heads
        attention = weights.scope("self_attn")
        parts = [(name, width) for name in ("q_proj", "k_proj", "v_proj")]
        self.norm = LayerNorm(weights.scope("layer_norm1"), width, epsilon)
        self.projections = JoinedLinear(attention, parts, width, bias=True)
        self.output = Linear(attention, "out_proj", width, width, bias=True)
        merged, inner = _SQUARE * width, _SQUARE * config.intermediate_size
        names = ("linear_1", "linear_2")
        self.merged_norm = LayerNorm(weights.scope("pre_norm"), merged, epsilon)
        self.mlp = GeluMLP(weights, merged, inner, width, "tanh", names)

    def __call__(self, hidden: Tensor, rows: int, columns: int) -> Tensor:
        """[rows * columns, width] -> [rows / 2 * columns / 2, width]."""
        hidden = in_squares(hidden, rows, columns)
        hidden = hidden + self._attend(self.norm(hidden))
        squares: Tensor = hidden.unflatten(0, (-1, _SQUARE))
        return self.mlp(self.merged_norm(squares.flatten(1))) + squares.mean(1)

    def _attend(self, hidden: Tensor) -> Tensor:
        # [squares, heads, patches, numbers of a head]
        split = (-1, _SQUARE, self._heads, hidden.shape[1] // self._heads)
        queries, keys, values = (
            each.reshape(split).transpose(1, 2) for each in self.projections(hidden)
        )
        attended = F.scaled_dot_product_attention(queries, keys, values)
        result: Tensor = self.output(attended.transpose(1, 2).reshape(hidden.shape))
        return result


class VisionTower:
    def __init__(self, weights: Weights, config: MiniCpmVConfig) -> None:
        vision = config.vision_config
        width, patch = vision.hidden_size, vision.patch_size
        self.config, self._inserted, self._dtype = vision, config.insert_layer_id, weights.dtype
        tower = weights.scope("model.vision_tower", exact=True)
        embeddings = tower.scope("embeddings")
        # Its kernel equals its stride, so the published convolution is one matrix over patches.
        patches = embeddings.scope("patch_embedding")
        weight = patches.tensor("weight", (width, vision.num_channels, patch, patch))
        bias = patches.tensor("bias", (width,))
        self.patches = weights.packed(weight.permute(0, 2, 3, 1).flatten(1), bias)
        positions = (vision.side**2, width)
        self.positions = embeddings.tensor("position_embedding.weight", positions)
        layers = tower.scope("encoder").layers(range(vision.num_hidden_layers))
        self.blocks = [VisionBlock(each, vision) for each, _ in layers]
        self.merger = WindowMerger(tower.scope("vit_merger"), vision)
        self.last_norm = LayerNorm(tower.scope("post_layernorm"), width, vision.layer_norm_eps)
        projector = weights.scope("model.merger.mlp.0", exact=True)
        merged, out_width = _SQUARE * width, config.text_config.hidden_size
        self.merged_norm = LayerNorm(projector.scope("pre_norm"), merged, _EPSILON)
        names = ("linear_1", "linear_2")
        self.projector = GeluMLP(projector, merged, merged, out_width, "none", names)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches row by row; `rows` and `columns` are multiples of four."""
        hidden = self.patches(pixels.to(self._dtype)) + self._position_embedding(rows, columns)
        for index, block in enumerate(self.blocks):
            check()
            hidden = block(hidden)
            if index == self._inserted:
                hidden = self.merger(hidden, rows, columns)
        squares = in_squares(self.last_norm(hidden), rows // 2, columns // 2)
        merged = self.merged_norm(squares.unflatten(0, (-1, _SQUARE)).flatten(1))
        projected: Tensor = self.projector(merged)
        return projected

    def _position_embedding(self, rows: int, columns: int) -> Tensor:
        """The nearest of the table's positions, by the share of the picture before them."""
        side = self.config.side
        edges = torch.arange(1 / side, 1.0, 1 / side)
        down, across = (
            torch.bucketize(torch.arange(count) / count, edges, right=True)
            for count in (rows, columns)
        )
        places = (down[:, None] * side + across).flatten()
        return self.positions[places.to(self.positions.device)]


# ------------------------------------------------------------------ model


def build(config: MiniCpmVConfig, weights: Weights, device: torch.device) -> Decoder:
    tower = VisionTower(weights, config)
    return qwen3_5.decoder(config.text_config, weights, device, config.tie_word_embeddings, tower)


FAMILY = Family("MiniCpmVModel", MiniCpmVConfig, build)
