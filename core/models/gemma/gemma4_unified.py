"""Gemma 4 unified: Gemma 4's text stack without a tower. A square of pixels is embedded by one
matrix between norms, plus embeddings of its row and column. Audio is not supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from core.layers.linear import Linear
from core.layers.norm import LayerNorm
from core.models.decoder import Decoder, Family
from core.models.gemma import gemma4
from core.models.settings import Count, Positive, Settings
from core.weights.plan import Weights
from kernels.common.shapes import NormShape

# torch's default, which the reference doesn't change.
_EPSILON = 1e-5


class VisionConfig(Settings):
    """A token is a square of `pooling_kernel_size` patches a side."""

    patch_size: Count = 16
    pooling_kernel_size: Count = 3
    mm_embed_dim: Count = 3840
    mm_posemb_size: Count = 1120
    rms_norm_eps: Positive = 1e-6

    @property
    def token_numbers(self) -> int:
        return 3 * (self.patch_size * self.pooling_kernel_size) ** 2


class TextConfig(gemma4.TextConfig):
    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {
            "max_position_embeddings": 262_144,
            "sliding_window": 1024,
            "use_bidirectional_attention": "vision",
        }
        if "use_bidirectional_attention" in values:
            del defaults["use_bidirectional_attention"]
        fixed = {"hidden_size_per_layer_input": 0, "enable_moe_block": False}
        return super().respell(defaults | given | fixed, values)


class Gemma4UnifiedConfig(gemma4.Gemma4Config):
    text_config: TextConfig
    # Another class than the parent's: mypy asks for a subclass, pydantic does not.
    vision_config: VisionConfig | None = None  # type: ignore[assignment]

    text_only: ClassVar[str] = "gemma4_unified_text"


class PixelEmbedder:
    """norm(norm(W norm(pixels)) + positions), projected to rows of the text stack."""

    def __init__(self, weights: Weights, config: VisionConfig, out_width: int) -> None:
        self.config, self._dtype = config, weights.dtype
        width, numbers = config.mm_embed_dim, config.token_numbers
        scope = weights.scope("model.vision_embedder", exact=True)
        self.first_norm = LayerNorm(scope.scope("patch_ln1"), numbers, _EPSILON)
        self.pixels = Linear(scope, "patch_dense", numbers, width, bias=True)
        self.second_norm = LayerNorm(scope.scope("patch_ln2"), width, _EPSILON)
        self.positions = scope.tensor("pos_embedding", (config.mm_posemb_size, 2, width))
        self.last_norm = LayerNorm(scope.scope("pos_norm"), width, _EPSILON)
        self._ops = weights.ops(NormShape(width))
        device = self.positions.device
        self._plain_norm = torch.ones(width, device=device), config.rms_norm_eps
        out = weights.scope("model.embed_vision", exact=True)
        self.projection = Linear(out, "embedding_projection", width, out_width)

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Squares of pixels row by row, of numbers from 0 to 1."""
        check()
        embedded = self.pixels(self.first_norm(pixels.to(self._dtype)))
        by_column, by_row = self.positions[:columns, 0], self.positions[:rows, 1]
        places = (by_row[:, None] + by_column).flatten(0, 1)
        hidden = self.last_norm(self.second_norm(embedded) + places)
        return self.projection(self._ops.rms_norm(hidden, *self._plain_norm))


def build(config: Gemma4UnifiedConfig, weights: Weights, device: torch.device) -> Decoder:
    text, vision = config.text_config, config.vision_config
    tower = PixelEmbedder(weights, vision, text.hidden_size) if vision else None
    return gemma4.decoder(text, weights, device, config.tied, tower)


FAMILY = Family("Gemma4UnifiedModel", Gemma4UnifiedConfig, build, gemma4.published_names)
