"""Nemotron 3 Nano Omni: Nemotron-H with a RADIO tower (arXiv:2312.06709). Audio and video are not
supported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from core.layers.feed_forward import GeluMLP, SquaredReluMLP
from core.layers.linear import Linear
from core.layers.norm import LayerNorm, RMSNorm
from core.models.decoder import Decoder, Family
from core.models.nemotron import nemotron_h
from core.models.nemotron.nemotron_h import NemotronHConfig
from core.models.settings import Count, Depth, Index, Positive, Settings
from core.models.siglip import VisionBlock, in_squares
from core.weights.plan import Weights
from kernels.common.shapes import FullAttentionShape

_EPSILON = 1e-5  # of the projector's norm; not in the config
_SQUARE = 4  # patches of a token
_TOWER, _LAST_NORM = "vision_model.radio_model.model", "vision_final_layernorm"
_OLDER_KEYS = {"llm_config": "text_config", "vit_hidden_size": "vision_hidden_size"}

Prefix = Annotated[int, Field(ge=0, le=2**12)]

# ------------------------------------------------------------------ config


class TextConfig(NemotronHConfig):
    num_nextn_predict_layers: Index = 0


class RadioConfig(Settings):
    hidden_size: Count = 1280
    num_hidden_layers: Depth = 32
    num_attention_heads: Count = 16
    mlp_ratio: Positive = 4.0
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: Positive = 1e-6
    use_swiglu_ffn: Literal[False] = False
    qkv_bias: Literal[True] = True
    num_channels: Literal[3] = 3
    patch_size: Count = 16
    max_img_size: Count = 2048
    num_cls_tokens: Prefix = 3
    num_registers: Prefix = 7

    @model_validator(mode="after")
    def _fits(self) -> RadioConfig:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError('"hidden_size" is not a multiple of "num_attention_heads"')
        if self.max_img_size < self.patch_size:
            raise ValueError('"max_img_size" is smaller than "patch_size"')
        if not 1 <= self.hidden_size * self.mlp_ratio <= 2**24:
            raise ValueError('"mlp_ratio" makes no sense')
        return self

    @property
    def side(self) -> int:
        return self.max_img_size // self.patch_size


class NemotronOmniConfig(Settings):
    text_config: TextConfig
    vision_config: RadioConfig
    downsample_ratio: Positive = 0.5
    projector_hidden_size: Count = 4096
    vision_hidden_size: Count = 1280

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        older = {name: given[key] for key, name in _OLDER_KEYS.items() if key in given}
        return {"vision_config": {}} | older | given

    @model_validator(mode="after")
    def _fits(self) -> NemotronOmniConfig:
        if self.downsample_ratio != 0.5:
            raise ValueError('"downsample_ratio" is not 0.5')
        if self.vision_hidden_size != self.vision_config.hidden_size:
            raise ValueError('"vision_hidden_size" is not "vision_config.hidden_size"')
        return self


# ------------------------------------------------------------------ tower


class RadioBlock(VisionBlock):
    """With published scales of what is added, which released towers leave out."""

    def __init__(self, weights: Weights, config: RadioConfig, scaled: bool) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.head_dim = width // config.num_attention_heads
        shape = FullAttentionShape(config.num_attention_heads, self.head_dim)
        self._attention = weights.ops(shape).full_attention
        self.first_norm = LayerNorm(weights.scope("norm1"), width, epsilon)
        self.second_norm = LayerNorm(weights.scope("norm2"), width, epsilon)
        qkv = Linear(weights, "attn.qkv", width, 3 * width, bias=True)
        self.projections = lambda hidden: qkv(hidden).chunk(3, dim=1)
        self.output = Linear(weights, "attn.proj", width, width, bias=True)
        inner = int(width * config.mlp_ratio)
        self.mlp = GeluMLP(weights.scope("mlp"), width, inner, width, "none", ("fc1", "fc2"))
        self.scales = [
            weights.tensor(f"layer_scale{place}.lambda1", (width,)) if scaled else 1.0
            for place in (1, 2)
        ]

    def __call__(self, hidden: Tensor) -> Tensor:
        first, second = self.scales
        hidden = hidden + self._attend(self.first_norm(hidden)) * first
        return hidden + self.mlp(self.second_norm(hidden)) * second


class RadioTower:
    def __init__(self, weights: Weights, config: NemotronOmniConfig) -> None:
        vision = config.vision_config
        width, patch = vision.hidden_size, vision.patch_size
        self.config, self._dtype = vision, weights.dtype
        scope = weights.scope(_TOWER, exact=True)
        patches = scope.scope("patch_generator")
        self.patches = Linear(patches, "embedder", 3 * patch**2, width)
        self.positions = patches.tensor("pos_embed", (1, vision.side**2, width))
        self.registers = patches.tensor(
            "cls_token.token", (vision.num_cls_tokens + vision.num_registers, width)
        )
        scaled = scope.has("blocks.0.layer_scale1.lambda1")
        self.blocks = [
            RadioBlock(scope.scope(f"blocks.{index}"), vision, scaled)
            for index in range(vision.num_hidden_layers)
        ]
        # Of models with an MTP head; releases leave it out where it changes nothing.
        self._norms = config.text_config.num_nextn_predict_layers > 0
        last_norm, self.last_norm = weights.scope(_LAST_NORM, exact=True), None
        if self._norms and last_norm.has("weight"):
            self.last_norm = LayerNorm(last_norm, width, vision.layer_norm_eps)
        projector, merged = weights.scope("mlp1", exact=True), _SQUARE * width
        self.merged_norm = RMSNorm(projector.scope("0"), merged, _EPSILON)
        out_width = config.text_config.hidden_size
        self.projector = SquaredReluMLP(projector, merged, config.projector_hidden_size, out_width)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """The four patches of a token together; `rows` and `columns` are even."""
        hidden = self.patches(pixels.to(self._dtype)) + self._position_embedding(rows, columns)
        hidden = torch.cat((self.registers, hidden))
        for block in self.blocks:
            check()
            hidden = block(hidden)
        hidden = hidden[len(self.registers) :]
        if self._norms:
            hidden = self._normed(hidden)
        merged = hidden.unflatten(0, (-1, _SQUARE)).flatten(1)
        projected: Tensor = self.projector(self.merged_norm(merged))
        return projected

    def _normed(self, hidden: Tensor) -> Tensor:
        if self.last_norm is not None:
            return self.last_norm(hidden)
        return F.layer_norm(hidden, hidden.shape[1:], eps=self.config.layer_norm_eps)

    def _position_embedding(self, rows: int, columns: int) -> Tensor:
        """The square table, stretched to the longer side and cropped."""
        side, longer = self.config.side, max(rows, columns)
        table = self.positions.float().view(1, side, side, -1).permute(0, 3, 1, 2)
        square = F.interpolate(table, (longer, longer), mode="bilinear", align_corners=False)
        grid = square[0, :, :rows, :columns].permute(1, 2, 0)
        return in_squares(grid.flatten(0, 1), rows, columns).to(self._dtype)


# ------------------------------------------------------------------ model and names


def build(config: NemotronOmniConfig, weights: Weights, device: torch.device) -> Decoder:
    return nemotron_h.build(config.text_config, weights, device, RadioTower(weights, config))


def published_names(config: NemotronOmniConfig, found: Collection[str]) -> Callable[[str], str]:
    """The projector's layers are numbered, and the text stack is in a scope of its own."""
    inner = {name.removeprefix("language_model.") for name in found}
    rename = nemotron_h.published_names(config.text_config, inner)

    def published(name: str) -> str:
        if name.startswith((_TOWER, _LAST_NORM, "mlp1.")):
            return name.replace("mlp1.up_proj.", "mlp1.1.").replace("mlp1.down_proj.", "mlp1.3.")
        return f"language_model.{rename(name)}"

    return published


FAMILY = Family("NemotronOmniModel", NemotronOmniConfig, build, published_names)
