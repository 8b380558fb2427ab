"""Mamba-2's keys of config.json, in the spelling that Falcon-H1 and Granite 4 share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from core.layers.mamba2 import Mamba2Sizes
from core.models.config.settings import Count, Positive, Settings, Taps

# Beyond what float32 holds there is no limit.
Limit = Annotated[
    float, Field(ge=0), AfterValidator(lambda each: each if each < 1e30 else math.inf)
]


class Mamba2Settings(Settings):
    """What a mixer is made of, `mamba_d_head` as a number."""

    mamba_n_heads: Count = 128
    mamba_d_head: Count
    mamba_n_groups: Count = 1
    mamba_d_state: Count = 256
    mamba_d_conv: Taps = 4
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: tuple[Limit, Limit] = (0.0, math.inf)
    rms_norm_eps: Positive = 1e-5

    def check_mamba(self, width: int) -> None:
        """Raises ValueError where heads don't make up `width` or can't share B and C, or where the
        limits leave nothing."""
        if self.mamba_n_heads * self.mamba_d_head != width:
            raise ValueError(f'"mamba_n_heads" x "mamba_d_head" is not {width}, the mixer\'s width')
        if self.mamba_n_heads % self.mamba_n_groups:
            raise ValueError('"mamba_n_heads" is not a multiple of "mamba_n_groups"')
        if not self.time_step_limit[0] <= self.time_step_limit[1]:
            raise ValueError('"time_step_limit" is not a range')

    def mamba_sizes_in(self, hidden: int) -> Mamba2Sizes:
        """Of a mixer between rows of `hidden` numbers."""
        return Mamba2Sizes(
            hidden=hidden,
            heads=self.mamba_n_heads,
            head_dim=self.mamba_d_head,
            groups=self.mamba_n_groups,
            state_dim=self.mamba_d_state,
            kernel=self.mamba_d_conv,
        )


def mamba2_spelling(given: Mapping[str, Any], width: Any, heads: Any) -> dict[str, Any]:
    """The keys that are a number in one file and a word in another: "mamba_d_head" may be "auto",
    the `width` of all `heads` by their number, and infinity has several spellings."""
    found: dict[str, Any] = {}
    if given.get("mamba_d_head", "auto") == "auto" and isinstance(width, int):
        if not isinstance(heads, int) or heads < 1 or width % heads:
            raise ValueError(f'"mamba_n_heads" does not divide {width}, the width of all heads')
        found["mamba_d_head"] = width // heads
    limits = given.get("time_step_limit")
    if isinstance(limits, list | tuple):
        found["time_step_limit"] = tuple(map(_number, limits))
    return found


def _number(given: Any) -> Any:
    """A number as JSON has it, or as transformers writes one that JSON has not."""
    if isinstance(given, dict) and given.get("__float__") == "Infinity":
        return math.inf
    return given
