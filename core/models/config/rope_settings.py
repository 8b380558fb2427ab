"""RoPE as config.json spells it, in its newer and its older form, for families with plain RoPE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from core.layers.rope import inverse_frequencies, stretched_frequencies
from core.models.config.settings import Count, Positive, Settings
from core.weights.safetensors_file import shown

KINDS = ("default", "linear", "llama3")


class RopeSettings(Settings):
    """One set of `rope_parameters`."""

    rope_type: Literal["default", "linear", "llama3"] = "default"
    rope_theta: Positive = 10000.0
    factor: float = Field(default=1.0, ge=1, allow_inf_nan=False)
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_max_position_embeddings: Count = 8192
    partial_rotary_factor: float = Field(default=1.0, ge=1, le=1)

    @field_validator("rope_type", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in KINDS:
            raise ValueError(f'this kind of RoPE ("{shown(value)}") is not supported')
        return value

    @model_validator(mode="after")
    def _fits(self) -> RopeSettings:
        if self.rope_type == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ValueError('"high_freq_factor" is not above "low_freq_factor"')
        return self

    def frequencies(self, dim: int, device: torch.device) -> Tensor:
        """The angle each of the dim / 2 pairs rotates by from one position to the next, float32."""
        plain = inverse_frequencies(self.rope_theta, dim, device)
        if self.rope_type == "linear":
            return plain / self.factor
        if self.rope_type == "llama3":
            return stretched_frequencies(
                plain,
                self.factor,
                self.low_freq_factor,
                self.high_freq_factor,
                self.original_max_position_embeddings,
            )
        return plain


def one_spelling(values: Mapping[str, Any], theta: str = "rope_theta") -> dict[str, Any]:
    """`rope_parameters` of a config, or `rope_scaling` with the base beside it under `theta`.

    Raises ValueError where either is no object.
    """
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ValueError('"rope_parameters" is not an object')
    beside = {"rope_theta": values[theta]} if values.get(theta) is not None else {}
    return {"rope_type": rope.get("type", "default")} | beside | rope
