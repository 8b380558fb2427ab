"""`rope_parameters` of config.json, in the forms that several families share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from core.api.errors import BrokenConfigError, shown
from core.layers.rope import interpolated_frequencies, inverse_frequencies, stretched_frequencies
from core.models.settings import Count, Positive, Settings

_KINDS = ("default", "linear", "llama3", "divided", "proportional")


class RopeSettings(Settings):
    """With "divided" the file has the number that each frequency is divided by; with "proportional"
    only the first `partial_rotary_factor` of a head's pairs rotate."""

    rope_type: Literal["default", "linear", "llama3", "divided", "proportional"] = "default"
    rope_theta: Positive = 10000.0
    factor: float = Field(default=1.0, ge=1, allow_inf_nan=False)
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_max_position_embeddings: Count = 8192
    partial_rotary_factor: float = Field(default=1.0, ge=0, le=1)
    divisors: tuple[Positive, ...] = ()

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Without absent divisors, which are newer than contexts that people have saved."""
        fields = super().__repr_args__()
        return [(name, value) for name, value in fields if name != "divisors" or value]

    @field_validator("rope_type", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in _KINDS:
            raise ValueError(f'this kind of RoPE ("{shown(value)}") is not supported')
        return value

    @model_validator(mode="after")
    def _fits(self) -> RopeSettings:
        if self.rope_type == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ValueError('"high_freq_factor" is not above "low_freq_factor"')
        if self.partial_rotary_factor < 1 and self.rope_type != "proportional":
            raise ValueError('"partial_rotary_factor" below 1 is not supported')
        if (self.rope_type == "divided") != bool(self.divisors):
            raise ValueError('"divisors" are not those of a "divided" RoPE')
        return self

    def frequencies(self, dim: int, device: torch.device) -> Tensor:
        """Angles of the dim / 2 pairs per position, float32. Raises BrokenConfigError for another
        number of divisors."""
        plain = inverse_frequencies(self.rope_theta, dim, device)
        if self.rope_type == "linear":
            return plain / self.factor
        if self.rope_type == "proportional":
            plain[int(self.partial_rotary_factor * dim // 2) :] = 0
            return plain / self.factor
        if self.rope_type == "divided":
            if len(self.divisors) != len(plain):
                raise BrokenConfigError(
                    f"RoPE has {len(self.divisors)} divisors for {dim} numbers."
                )
            return plain / torch.tensor(self.divisors, device=device)
        if self.rope_type == "llama3":
            return stretched_frequencies(
                plain,
                self.factor,
                self.low_freq_factor,
                self.high_freq_factor,
                self.original_max_position_embeddings,
            )
        return plain


def rope_of(values: Mapping[str, Any], theta: str = "rope_theta") -> dict[str, Any]:
    """`rope_parameters`, or `rope_scaling` and the base, whose key is `theta`. Raises ValueError if
    either is not an object."""
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ValueError('"rope_parameters" is not an object')
    beside = {"rope_theta": values[theta]} if values.get(theta) is not None else {}
    return {"rope_type": rope.get("type", "default")} | beside | rope


class YarnSettings(Settings):
    rope_type: Literal["yarn"]
    rope_theta: Positive = 10000.0
    factor: float = Field(ge=1, le=1e6)
    original_max_position_embeddings: Count
    beta_fast: Positive = 32.0
    beta_slow: Positive = 1.0
    attention_factor: Positive | None = None
    mscale: Positive | None = None
    mscale_all_dim: Positive | None = None
    truncate: bool = True
    partial_rotary_factor: float = Field(default=1.0, ge=1, le=1)
    llama_4_scaling_beta: float = Field(default=0.0, ge=0, le=1e6)

    @model_validator(mode="after")
    def _fits(self) -> YarnSettings:
        if self.rope_theta <= 1:
            raise ValueError('"rope_theta" is not above 1')
        return self

    def frequencies(self, dim: int, device: torch.device) -> Tensor:
        return interpolated_frequencies(
            inverse_frequencies(self.rope_theta, dim, device),
            self.rope_theta,
            self.factor,
            self.original_max_position_embeddings,
            (self.beta_fast, self.beta_slow),
            whole=self.truncate,
        )

    @property
    def multiplier(self) -> float:
        """Multiplies queries and keys, so that attention over more tokens is as sharp."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._grown(self.mscale) / self._grown(self.mscale_all_dim)
        return self._grown(1.0)

    def _grown(self, scale: float) -> float:
        return 0.1 * scale * math.log(self.factor) + 1
