"""The vision tower of Qwen3.5 and Qwen3-VL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from core.layers.feed_forward import GeluMLP
from core.layers.linear import Linear
from core.layers.norm import LayerNorm
from core.layers.rope import Rotation, inverse_frequencies
from core.models.settings import Count, Depth, Positive, Settings
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape, RotationShape

_EPSILON = 1e-6  # of every LayerNorm in the tower; not in the config


class VisionRope(Settings):
    rope_theta: Positive = 10000.0


class VisionConfig(Settings):
    depth: Depth
    hidden_size: Count
    num_heads: Count
    intermediate_size: Count
    out_hidden_size: Count
    patch_size: Count = 16
    temporal_patch_size: Count = 2
    spatial_merge_size: Count = 2
    in_channels: Literal[3] = 3
    num_position_embeddings: Count = 2304
    hidden_act: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    deepstack_visual_indexes: tuple[int, ...] = Field(default=(), max_length=0)
    rope_parameters: VisionRope = VisionRope()

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if self.hidden_size % (4 * self.num_heads):
            raise ValueError('"hidden_size" is not "num_heads" times a multiple of 4')
        if math.isqrt(self.num_position_embeddings) ** 2 != self.num_position_embeddings:
            raise ValueError('"num_position_embeddings" is not a square')
        return self


class VisionBlock:
    def __init__(self, weights: Weights, config: VisionConfig) -> None:
        width = config.hidden_size
        self.head_dim = width // config.num_heads
        shape = RotationShape(config.num_heads, self.head_dim, self.head_dim)
        ops = weights.ops(shape, FullAttentionShape(config.num_heads, self.head_dim))
        self._rotate, self._attention = ops.rotate, ops.full_attention
        self.first_norm = LayerNorm(weights.scope("norm1"), width, _EPSILON)
        self.second_norm = LayerNorm(weights.scope("norm2"), width, _EPSILON)
        self.qkv = Linear(weights, "attn.qkv", width, 3 * width, bias=True)
        self.projection = Linear(weights, "attn.proj", width, width, bias=True)
        self.mlp = GeluMLP(weights.scope("mlp"), width, config.intermediate_size, width, "tanh")

    def __call__(self, hidden: Tensor, rotation: Rotation) -> None:
        """Updates `hidden` [patches, hidden_size] in place."""
        hidden += self._attend(self.first_norm(hidden), rotation)
        hidden += self.mlp(self.second_norm(hidden))

    def _attend(self, hidden: Tensor, rotation: Rotation) -> Tensor:
        queries, keys, values = (
            self.qkv(hidden).view(hidden.shape[0], 3, -1, self.head_dim).unbind(1)
        )
        # Rotated in float32 and rounded once, unlike the text layers: so does the released tower.
        queries, keys = (self._rotate(each, *rotation) for each in (queries, keys))
        attended = self._attention(queries, keys, values, self.head_dim**-0.5)
        return self.projection(attended.flatten(1))


class PatchMerger:
    """Neighbouring patches, side by side, through a norm and an MLP: one token. The norm is over
    each patch or, `joined`, over all of a token."""

    def __init__(self, weights: Weights, config: VisionConfig, joined: bool = False) -> None:
        width = config.hidden_size * config.spatial_merge_size**2
        self._normed = width if joined else config.hidden_size
        self._width = width
        self.norm = LayerNorm(weights.scope("norm"), self._normed, _EPSILON)
        self.mlp = GeluMLP(weights, width, width, config.out_hidden_size, "none")

    def __call__(self, hidden: Tensor) -> Tensor:
        normed = self.norm(hidden.view(-1, self._normed))
        return self.mlp(normed.view(-1, self._width))


class VisionTower:
    def __init__(self, weights: Weights, config: VisionConfig, device: torch.device) -> None:
        width = config.hidden_size
        self.config = config
        kernel = (config.in_channels, config.temporal_patch_size, *[config.patch_size] * 2)
        # Its kernel equals its stride, so the published convolution is one matrix over patches.
        patches, self._dtype = weights.scope("patch_embed.proj"), weights.dtype
        weight, bias = patches.tensor("weight", (width, *kernel)), patches.tensor("bias", (width,))
        self.patches = weights.packed(weight.flatten(1), bias)
        count = config.num_position_embeddings
        self.positions = weights.tensor("pos_embed.weight", (count, width))
        self.blocks = [
            VisionBlock(weights.scope(f"blocks.{index}"), config) for index in range(config.depth)
        ]
        self.merger = PatchMerger(weights.scope("merger"), config)
        self.deeper = {
            block: PatchMerger(weights.scope(f"deepstack_merger_list.{index}"), config, True)
            for index, block in enumerate(config.deepstack_visual_indexes)
        }
        theta = config.rope_parameters.rope_theta
        self.frequencies = inverse_frequencies(theta, width // config.num_heads // 2, device)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches of a token together -> [tokens, out_hidden_size x (1 + DeepStack blocks)].

        `rows` and `columns` count patches and are multiples of `spatial_merge_size`.
        """
        hidden = self.patches(pixels.to(self._dtype))
        hidden = hidden + self._position_embedding(rows, columns).to(hidden.dtype)
        rotation = self._rotation(rows, columns)
        features = []
        for index, block in enumerate(self.blocks):
            check()
            block(hidden, rotation)
            if index in self.deeper:
                features.append(self.deeper[index](hidden))
        merged = self.merger(hidden)
        return torch.cat((merged, *features), dim=1) if features else merged

    def _position_embedding(self, rows: int, columns: int) -> Tensor:
        """The square table stretched to the grid, corner to corner."""
        side = math.isqrt(self.positions.shape[0])
        table = self.positions.float().view(side, side, -1)
        table = _stretch(table, rows)
        table = _stretch(table.transpose(0, 1), columns).transpose(0, 1)
        return self._in_merge_blocks(table)

    def _rotation(self, rows: int, columns: int) -> Rotation:
        """Angles [row f | column f] of every patch, float32."""
        grid = self.frequencies.new_empty(rows, columns, 2 * self.frequencies.shape[0])
        by_row, by_column = grid.chunk(2, dim=-1)
        by_row.copy_(_angles(rows, self.frequencies)[:, None])
        by_column.copy_(_angles(columns, self.frequencies)[None])
        angles = self._in_merge_blocks(grid)
        return angles.cos(), angles.sin()

    def _in_merge_blocks(self, grid: Tensor) -> Tensor:
        """[rows, columns, width] -> [patches, width], the patches of a token together."""
        side = self.config.spatial_merge_size
        rows, columns, width = grid.shape
        blocks = grid.view(rows // side, side, columns // side, side, width)
        return blocks.transpose(1, 2).reshape(-1, width)


def _angles(count: int, frequencies: Tensor) -> Tensor:
    places = torch.arange(count, dtype=torch.float32, device=frequencies.device)
    return torch.outer(places, frequencies)


def _stretch(table: Tensor, count: int) -> Tensor:
    """Linear interpolation of `table` [side, ..] to [count, ..]; first and last stay in place."""
    last = table.shape[0] - 1
    places = torch.arange(count, dtype=torch.float32, device=table.device)
    places = places * last / max(1, count - 1)
    below = places.floor().long()
    above = (below + 1).clamp(max=last)
    share = (places - below)[:, None, None]
    return table[below].mul_(1 - share).add_(table[above].mul_(share))
