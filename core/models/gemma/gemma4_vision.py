"""Gemma 4's vision tower: a transformer over patches of a picture in its own shape. Positions are
an embedding of row and column and a rotation in two halves (axial RoPE). The mean of each square of
patches is one token."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.linear import Linear
from core.layers.norm import RMSNorm
from core.layers.rope import Rotation, inverse_frequencies
from core.layers.runs import in_row_blocks
from core.models.settings import Count, Depth, Positive, Settings
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape, NormShape, RotationShape


class AxialRope(Settings):
    rope_type: Literal["axial", "default"] = "axial"
    rope_theta: Positive = 100.0


class VisionConfig(Settings):
    hidden_size: Count = 768
    intermediate_size: Count = 3072
    num_hidden_layers: Depth = 16
    num_attention_heads: Count = 12
    num_key_value_heads: Count = 12
    head_dim: Count = 64
    hidden_activation: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    rms_norm_eps: Positive = 1e-6
    rope_parameters: AxialRope = AxialRope()
    pooling_kernel_size: Count = 3
    patch_size: Count = 16
    position_embedding_size: Count = 10_240
    use_clipped_linears: bool = False
    standardize: bool = False

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if self.num_key_value_heads != self.num_attention_heads:
            raise ValueError('"num_key_value_heads" is not "num_attention_heads"')
        if self.head_dim % 4:
            raise ValueError('"head_dim" is not a multiple of 4')
        return self


class ClippedLinear:
    def __init__(
        self, weights: Weights, name: str, num_inputs: int, num_outputs: int, clipped: bool
    ) -> None:
        scope = weights.scope(name)
        self._linear = Linear(scope, "linear", num_inputs, num_outputs)
        ends = ("input_min", "input_max", "output_min", "output_max")
        self._ranges = [float(scope.tensor(each, ())) for each in ends] if clipped else None

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._ranges is None:
            return self._linear(inputs)
        low, high, lowest, highest = self._ranges
        return self._linear(inputs.clamp(low, high)).clamp_(lowest, highest)


class VisionBlock:
    def __init__(self, weights: Weights, config: VisionConfig) -> None:
        width, inner = config.hidden_size, config.intermediate_size
        epsilon, clipped = config.rms_norm_eps, config.use_clipped_linears
        heads, self.head_dim = config.num_attention_heads, config.head_dim
        self._ops = weights.ops(
            FullAttentionShape(heads, self.head_dim),
            RotationShape(heads, self.head_dim // 2, self.head_dim // 2),
            NormShape(self.head_dim),
        )
        names = ("input", "post_attention", "pre_feedforward", "post_feedforward")
        self.norms = [RMSNorm(weights.scope(f"{name}_layernorm"), width, epsilon) for name in names]
        attention, mlp = weights.scope("self_attn"), weights.scope("mlp")
        all_heads = heads * self.head_dim
        self.projections = [
            ClippedLinear(attention, name, width, all_heads, clipped)
            for name in ("q_proj", "k_proj", "v_proj")
        ]
        self.output = ClippedLinear(attention, "o_proj", all_heads, width, clipped)
        self.query_norm, self.key_norm = (
            RMSNorm(attention.scope(name), self.head_dim, epsilon) for name in ("q_norm", "k_norm")
        )
        self.value_norm = torch.ones_like(self.key_norm.scale), epsilon
        self.gate, self.up = (
            ClippedLinear(mlp, name, width, inner, clipped) for name in ("gate_proj", "up_proj")
        )
        self.down = ClippedLinear(mlp, "down_proj", inner, width, clipped)
        self._numbers = 3 * inner

    def __call__(self, hidden: Tensor, rotations: tuple[Rotation, Rotation]) -> Tensor:
        before, after, before_mlp, after_mlp = self.norms
        hidden = hidden + after(self._attend(before(hidden), rotations))
        return hidden + after_mlp(in_row_blocks(self._mlp, before_mlp(hidden), self._numbers))

    def _attend(self, hidden: Tensor, rotations: tuple[Rotation, Rotation]) -> Tensor:
        queries, keys, values = (
            each(hidden).unflatten(1, (-1, self.head_dim)) for each in self.projections
        )
        queries = self._rotated(self.query_norm(queries), rotations)
        keys = self._rotated(self.key_norm(keys), rotations)
        values = self._ops.rms_norm(values, *self.value_norm)
        attended = self._ops.full_attention(queries, keys, values, 1.0)
        return self.output(attended.flatten(1))

    def _rotated(self, heads: Tensor, rotations: tuple[Rotation, Rotation]) -> Tensor:
        """The first half of each head by the column, the second by the row."""
        halves = zip(heads.chunk(2, dim=-1), rotations, strict=True)
        return torch.cat([self._ops.rotate(half, *rotation) for half, rotation in halves], dim=-1)

    def _mlp(self, hidden: Tensor) -> Tensor:
        opened = F.gelu(self.gate(hidden), approximate="tanh") * self.up(hidden)
        return self.down(opened)


class VisionTower:
    def __init__(self, weights: Weights, config: VisionConfig, out_width: int) -> None:
        width, depth = config.hidden_size, config.num_hidden_layers
        self.config = config
        tower = weights.scope("model.vision_tower", exact=True)
        patches, self._dtype = tower.scope("patch_embedder"), weights.dtype
        self.patches = Linear(patches, "input_proj", 3 * config.patch_size**2, width)
        shape = (2, config.position_embedding_size, width)
        self.positions = patches.tensor("position_embedding_table", shape)
        device, half = self.positions.device, config.head_dim // 2
        self._frequencies = inverse_frequencies(config.rope_parameters.rope_theta, half, device)
        layers = tower.scope("encoder").layers(range(depth))
        self.blocks = [VisionBlock(each, config) for each, _ in layers]
        self.standard = None
        if config.standardize:
            names = ("std_bias", "std_scale")
            self.standard = [tower.tensor(name, (width,), torch.float32) for name in names]
        self._ops = weights.ops(NormShape(width))
        self._last_norm = torch.ones(width, device=device), config.rms_norm_eps
        out = weights.scope("model.embed_vision", exact=True)
        self.projection = Linear(out, "embedding_projection", width, out_width)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches row by row, of numbers from 0 to 1; `rows` and `columns` are multiples of
        `pooling_kernel_size`."""
        hidden = self.patches((2 * (pixels - 0.5)).to(self._dtype))
        by_column, by_row = self.positions[:, : max(rows, columns)]
        hidden = hidden + (by_row[:rows, None] + by_column[None, :columns]).flatten(0, 1)
        rotations = self._rotations(rows, columns)
        for block in self.blocks:
            check()
            hidden = block(hidden, rotations)
        pooled = self._pooled(hidden, rows, columns)
        return self.projection(self._ops.rms_norm(pooled, *self._last_norm))

    def _rotations(self, rows: int, columns: int) -> tuple[Rotation, Rotation]:
        device = self._frequencies.device
        places = torch.arange(rows * columns, device=device)
        angles = [
            each[:, None].float() * self._frequencies
            for each in (places % columns, places // columns)
        ]
        first, second = (
            (each.cos().to(self._dtype), each.sin().to(self._dtype)) for each in angles
        )
        return first, second

    def _pooled(self, hidden: Tensor, rows: int, columns: int) -> Tensor:
        """The mean of each square of patches times sqrt(width), standardised."""
        side = self.config.pooling_kernel_size
        squares = hidden.view(rows // side, side, columns // side, side, -1).float()
        means = squares.mean((1, 3)).to(hidden.dtype).flatten(0, 1)
        scaled = means.float() * math.sqrt(self.config.hidden_size)
        if self.standard is not None:
            bias, scale = self.standard
            scaled = (scaled - bias) * scale
        return scaled.to(hidden.dtype)
