"""Which kernels a model runs on: chosen once, when it is loaded, and the same until it goes.

Knows the backends and what each can do here. `name` says all of a choice that can change a bit, so
it belongs into the fingerprint. Nothing is measured here: what depends on speed is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kernels.linear.cpu import PackedMatrix, can_pack
from kernels.linear.reference import Matrix, PlainMatrix

BackendName = Literal["reference", "cpu"]
# Rows that a packed matrix takes at once where nobody has measured what is best here.
DEFAULT_ROWS = 64


@dataclass(frozen=True, slots=True)
class Backend:
    """One implementation of every op. `pack` makes a matrix of a weight [outputs, inputs] and a
    bias; `name` differs wherever the bits may."""

    name: str
    pack: Callable[[Tensor, Tensor | None], Matrix]


REFERENCE = Backend("reference", PlainMatrix)


def fastest(device: torch.device) -> BackendName:
    """The backend for a device when the user doesn't name one."""
    return "cpu" if device.type == "cpu" else "reference"


def backend(name: BackendName, dtype: torch.dtype, rows: int = DEFAULT_ROWS) -> Backend:
    """The backend `name`; `reference` where it has nothing for `dtype` on this machine.

    `rows` are those that a packed matrix takes at once.
    """
    if name == "reference" or not can_pack(dtype):
        return REFERENCE

    def pack(weight: Tensor, bias: Tensor | None) -> Matrix:
        return PackedMatrix(weight, bias, rows)

    return Backend(f"onednn, {rows} rows", pack)
