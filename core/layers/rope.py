"""RoPE: the cosines and sines that queries and keys are rotated by."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

Rotation = tuple[Tensor, Tensor]
"""Cosine and sine, each [n, rotary_dim / 2]."""

Rotations = Mapping[str, Rotation]
"""The rotation of a forward's tokens for each kind of layer, by name."""


def copy_rotations(given: Rotations, to: Rotations) -> None:
    for name, rotation in given.items():
        for own, new in zip(to[name], rotation, strict=True):
            own.copy_(new)


def inverse_frequencies(theta: float, dim: int, device: torch.device) -> Tensor:
    """theta^(-2 i / dim) for i = 0 .. dim / 2 - 1, float32."""
    exponents = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
    return 1.0 / theta**exponents


def stretched_frequencies(
    frequencies: Tensor,
    factor: float,
    low_frequency_factor: float,
    high_frequency_factor: float,
    original_length: int,
) -> Tensor:
    """Llama 3.1's scaling: waves with more than `high_frequency_factor` turns within
    `original_length` are unchanged, those with fewer than `low_frequency_factor` become `factor`
    times longer, in between gradually."""
    turns = original_length * frequencies / (2 * math.pi)
    kept = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor)
    kept = kept.clamp(0, 1)
    return (1 - kept) * frequencies / factor + kept * frequencies


def interpolated_frequencies(
    frequencies: Tensor,
    theta: float,
    factor: float,
    original_length: int,
    turns: tuple[float, float],
    *,
    whole: bool,
) -> Tensor:
    """YaRN (arXiv:2309.00071): pairs with at least turns[0] turns within `original_length` are
    unchanged, those with at most turns[1] become `factor` times longer; in between, from one pair
    to another, which are `whole` numbers or not, the change is gradual."""
    dim = 2 * len(frequencies)

    def pair(count: float) -> float:
        return dim * math.log(original_length / (2 * math.pi * count)) / (2 * math.log(theta))

    first, last = pair(turns[0]), pair(turns[1])
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(float(first), 0.0), min(last, dim - 1)
    pairs = torch.arange(dim // 2, dtype=torch.float32, device=frequencies.device)
    kept = 1 - ((pairs - first) / (last - first or 0.001)).clamp(0, 1)
    return frequencies / factor * (1 - kept) + frequencies * kept


class RoPE:
    """One position for each token. Rotated heads are also multiplied by `factor`, and with a
    `temperature` (b, n) by 1 + b log(1 + floor(position / n))."""

    def __init__(
        self,
        frequencies: Tensor,
        dtype: torch.dtype,
        *,
        factor: float = 1.0,
        temperature: tuple[float, int] | None = None,
    ) -> None:
        self._frequencies = frequencies
        self._dtype = dtype
        self._factor, self._temperature = factor, temperature

    def __call__(self, positions: Tensor) -> Rotation:
        """`positions` [3, n], the same on all axes."""
        places = positions[0, :, None].float()
        angles = places * self._frequencies
        cosine, sine = angles.cos(), angles.sin()
        if self._factor != 1:
            cosine, sine = cosine * self._factor, sine * self._factor
        if self._temperature is not None:
            share, length = self._temperature
            longer = 1 + share * torch.log1p(torch.floor(places / length))
            cosine, sine = cosine * longer, sine * longer
        return cosine.to(self._dtype), sine.to(self._dtype)


class InterleavedMRoPE:
    """Frequencies alternate between the axes: i follows the height for i % 3 == 1 and i < 3 *
    sections[1], the width for i % 3 == 2 and i < 3 * sections[2], else the temporal axis."""

    def __init__(
        self,
        theta: float,
        rotary_dim: int,
        sections: tuple[int, int, int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._frequencies = inverse_frequencies(theta, rotary_dim, device)
        self._dtype = dtype
        self._axis_of = _axes(rotary_dim // 2, sections).to(device)

    def __call__(self, positions: Tensor) -> Rotation:
        """`positions` [3, n] of temporal, height and width.

        Angles are float32: in bfloat16 a position past 256 is no longer exact.
        """
        chosen = positions.T.index_select(1, self._axis_of)
        angles = chosen.float() * self._frequencies
        return angles.cos().to(self._dtype), angles.sin().to(self._dtype)


def _axes(count: int, sections: tuple[int, int, int]) -> Tensor:
    indices = torch.arange(count)
    axes = indices % 3
    ends = torch.tensor([min(3 * each, count) for each in sections])
    return torch.where(indices < ends[axes], axes, 0)
