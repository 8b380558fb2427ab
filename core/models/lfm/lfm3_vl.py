"""LFM3-VL: LFM3 with a tower of gated convolutions and attention over patches of a picture in its
own shape, without position embeddings. A picture's tokens have positions in a line."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.feed_forward import GeluMLP, SwiGLU
from core.layers.linear import JoinedLinear, Linear
from core.layers.norm import LayerNorm, RMSNorm
from core.layers.rope import Rotation, inverse_frequencies
from core.models.decoder import Decoder, Family
from core.models.lfm import lfm3
from core.models.lfm.lfm3 import Lfm3Config
from core.models.settings import Count, Depth, Positive, Settings, check_layer_types
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape, RotationShape

_EPSILON = 1e-6  # of the projector's LayerNorm; not in the config
LayerType = Literal["conv", "full_attention"]

# ------------------------------------------------------------------ config


class VisionRope(Settings):
    rope_type: Literal["axial"] = "axial"
    rope_theta: Positive = 1_000_000.0


class VisionConfig(Settings):
    hidden_size: Count = 1_024
    intermediate_size: Count = 2_560
    in_channels: Literal[3] = 3
    patch_size: Count = 16
    temporal_patch_size: Count = 2
    spatial_merge_size: Count = 2
    num_hidden_layers: Depth = 14
    num_attention_heads: Count = 16
    num_key_value_heads: Count = 8
    layer_types: tuple[LayerType, ...] = ()
    conv_kernel_size: Count = 3
    norm_eps: Positive = 1e-5
    rope_parameters: VisionRope = VisionRope()

    @model_validator(mode="after")
    def _fits(self) -> VisionConfig:
        if self.hidden_size % (4 * self.num_attention_heads):
            raise ValueError('"hidden_size" is not "num_attention_heads" times a multiple of 4')
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError('"num_attention_heads" is not a multiple of "num_key_value_heads"')
        if not self.conv_kernel_size % 2 or self.conv_kernel_size > 63:
            raise ValueError('"conv_kernel_size" is not an odd number below 64')
        check_layer_types(self.types, self.num_hidden_layers)
        return self

    @property
    def types(self) -> tuple[LayerType, ...]:
        return self.layer_types or tuple(
            "conv" if index < 2 or index % 2 else "full_attention"
            for index in range(self.num_hidden_layers)
        )

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


class Lfm3VlConfig(Settings):
    text_config: Lfm3Config
    vision_config: VisionConfig | None = None
    projector_hidden_act: Literal["gelu"] = "gelu"
    projector_hidden_size: Count = 4_096
    projector_bias: bool = True
    tie_word_embeddings: bool = True


# ------------------------------------------------------------------ tower


class GatedConv:
    """out_proj(C * conv(B * x)) over the grid of a picture's patches."""

    def __init__(self, weights: Weights, config: VisionConfig) -> None:
        width, self._kernel = config.hidden_size, config.conv_kernel_size
        self.projection = Linear(weights, "in_proj", width, 3 * width)
        shape = (width, 1, self._kernel, self._kernel)
        self.conv = weights.tensor("spatial_conv.weight", shape)
        self.output = Linear(weights, "out_proj", width, width)

    def __call__(self, hidden: Tensor, rotation: Rotation, grid: tuple[int, int]) -> Tensor:
        before, after, inputs = self.projection(hidden).chunk(3, dim=1)
        columns = (before * inputs).view(1, *grid, -1).permute(0, 3, 1, 2)
        convolved = F.conv2d(
            columns, self.conv, padding=self._kernel // 2, groups=self.conv.shape[0]
        )
        return self.output(after * convolved.permute(0, 2, 3, 1).reshape(hidden.shape))


class GroupedAttention:
    def __init__(self, weights: Weights, config: VisionConfig) -> None:
        width, heads, head_dim = config.hidden_size, config.num_attention_heads, config.head_dim
        self.head_dim, self._copies = head_dim, heads // config.num_key_value_heads
        self._ops = weights.ops(
            RotationShape(heads, head_dim, head_dim), FullAttentionShape(heads, head_dim)
        )
        keys = config.num_key_value_heads * head_dim
        parts = [("q_proj", width), ("k_proj", keys), ("v_proj", keys)]
        self.projections = JoinedLinear(weights, parts, width)
        self.output = Linear(weights, "out_proj", width, width)
        self.query_norm, self.key_norm = (
            RMSNorm(weights.scope(name), head_dim, config.norm_eps)
            for name in ("q_layernorm", "k_layernorm")
        )

    def __call__(self, hidden: Tensor, rotation: Rotation, grid: tuple[int, int]) -> Tensor:
        heads = (each.unflatten(1, (-1, self.head_dim)) for each in self.projections(hidden))
        queries, keys, values = heads
        queries, keys = (
            self._ops.norm_rotate(each, norm.scale, norm.epsilon, *rotation)
            for each, norm in ((queries, self.query_norm), (keys, self.key_norm))
        )
        keys, values = (each.repeat_interleave(self._copies, 1) for each in (keys, values))
        attended = self._ops.full_attention(queries, keys, values, self.head_dim**-0.5)
        return self.output(attended.flatten(1))


class VisionBlock:
    def __init__(self, weights: Weights, config: VisionConfig, kind: LayerType) -> None:
        width, epsilon = config.hidden_size, config.norm_eps
        self.mixer_norm = RMSNorm(weights.scope("operator_norm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("ffn_norm"), width, epsilon)
        self.mixer = (
            GatedConv(weights.scope("conv"), config)
            if kind == "conv"
            else GroupedAttention(weights.scope("self_attn"), config)
        )
        scope, names = weights.scope("feed_forward"), ("w1", "w3", "w2")
        self.mlp = SwiGLU(scope, width, config.intermediate_size, names=names)

    def __call__(self, hidden: Tensor, rotation: Rotation, grid: tuple[int, int]) -> Tensor:
        hidden = hidden + self.mixer(self.mixer_norm(hidden), rotation, grid)
        return hidden + self.mlp(self.mlp_norm(hidden))


class VisionTower:
    def __init__(
        self, weights: Weights, config: Lfm3VlConfig, vision: VisionConfig, device: torch.device
    ) -> None:
        width, self._side = vision.hidden_size, vision.spatial_merge_size
        self.config, self._dtype = vision, weights.dtype
        tower = weights.scope("model.vision_tower", exact=True)
        patch_width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        self.patches = Linear(tower, "patchifier", patch_width, width)
        self.norm = RMSNorm(tower.scope("embedding_norm"), width, vision.norm_eps)
        self.blocks = [
            VisionBlock(inner, vision, kind) for inner, kind in tower.layers(vision.types)
        ]
        theta = vision.rope_parameters.rope_theta
        self.frequencies = inverse_frequencies(theta, vision.head_dim // 2, device)
        projector = weights.scope("model.multi_modal_projector", exact=True)
        self.last_norm = LayerNorm(projector.scope("layer_norm"), width, _EPSILON)
        self._merged = width * self._side**2
        self.projector = GeluMLP(
            projector,
            self._merged,
            config.projector_hidden_size,
            config.text_config.hidden_size,
            "none",
            ("linear_1", "linear_2"),
            bias=config.projector_bias,
        )

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches of a token together; `rows` and `columns` are multiples of
        `spatial_merge_size`."""
        grid, side = (rows, columns), self._side
        hidden = self.norm(self.patches(pixels.to(self._dtype)))
        hidden = _swapped(hidden, rows // side, columns // side, side, side)
        rotation = self._rotation(rows, columns)
        for block in self.blocks:
            check()
            hidden = block(hidden, rotation, grid)
        hidden = self.last_norm(_swapped(hidden, rows // side, side, columns // side, side))
        return self.projector(hidden.view(-1, self._merged))

    def _rotation(self, rows: int, columns: int) -> Rotation:
        """Angles [row f | column f] of every patch, row by row, float32."""
        places = torch.arange(max(rows, columns), device=self.frequencies.device)
        angles = places[:, None].float() * self.frequencies
        by_row = angles[:rows, None].expand(-1, columns, -1)
        by_column = angles[None, :columns].expand(rows, -1, -1)
        both = torch.cat((by_row, by_column), dim=2).flatten(0, 1)
        return both.cos(), both.sin()


def _swapped(hidden: Tensor, *sizes: int) -> Tensor:
    """Patches whose places count through four `sizes`, the middle two swapped: from token by token
    to row by row, and back."""
    return hidden.view(*sizes, -1).transpose(1, 2).reshape(hidden.shape)


# ------------------------------------------------------------------ model


def build(config: Lfm3VlConfig, weights: Weights, device: torch.device) -> Decoder:
    scope, vision = weights.scope("model.language_model"), config.vision_config
    tower = VisionTower(weights, config, vision, device) if vision else None
    tied = config.tie_word_embeddings
    return lfm3.decoder(config.text_config, weights, scope, device, tied, tower)


_TOWER = "model.vision_tower."
# Names of releases, and those of transformers.
_NEWER = {"patchifier.": "patch_embed.", ".q_layernorm.": ".q_norm.", ".k_layernorm.": ".k_norm."}


def published_names(config: Lfm3VlConfig, found: Collection[str]) -> Callable[[str], str]:
    text = lfm3.published_names(config, found)

    def published(name: str) -> str:
        if not name.startswith(_TOWER):
            return text(name)
        newer = name
        for theirs, ours in _NEWER.items():
            newer = newer.replace(theirs, ours)
        return newer if newer in found else name

    return published


FAMILY = Family("Lfm3VlModel", Lfm3VlConfig, build, published_names)
