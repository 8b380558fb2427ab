"""Smoothing: large scales of a norm migrate into the columns of the matrices after it.

A group of a quantised matrix has one scale, and a norm that multiplies a channel by thirty
multiplies the error of its small weights too. So it gives up a power of two of such a channel,
which the columns take exactly (after SmoothQuant, arXiv:2211.10438).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

_LARGE = 4.0  # times the median; less is what groups are made for
_MOST = 16  # as an exponent of two


@dataclass(frozen=True, slots=True)
class InputNorm:
    """The norm whose result a matrix reads: multiplies by the tensor `name` plus `offset`."""

    name: str
    offset: float


def migrating_scales(scale: Tensor) -> Tensor:
    """The part of a norm's factors [width] float32 that migrates: for each channel 1 or a power of
    two from 4 on, the same on every device."""
    sizes = scale.detach().cpu().abs()
    ratios = sizes / sizes.median()
    large = ratios.isfinite() & (ratios >= _LARGE)
    exponents = torch.frexp(torch.where(large, ratios, 1.0)).exponent - 1
    return torch.ldexp(torch.ones_like(sizes), exponents.clamp_max(_MOST)).to(scale.device)


def smoothed_norms(readers: Iterable[tuple[InputNorm | None, bool]]) -> frozenset[str]:
    """Pairs (norm of a reader, true if it takes its scales): all readers must."""
    known = [(norm.name, takes) for norm, takes in readers if norm is not None]
    return frozenset(name for name, _ in known) - {name for name, takes in known if not takes}
