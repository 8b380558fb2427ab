"""One call of an operation, on random numbers, and how far it may stray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.gated_delta.reference import CHUNK
from kernels.ops import Ops

EPSILON = 1e-6
FEW = 3  # tokens of a step
ROWS = CHUNK + 1  # of a run: one chunk of the delta rule, and the first row of another


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the operation `op`.

    `call(ops, dtype)` makes it anew on the same numbers, those of the model's type in `dtype`, and
    returns all that it leaves behind. It may be off by `ulps` ULP of each number, or with
    a `magnitude` of the largest number or that, whichever is more.
    """

    op: str
    dtype: torch.dtype
    call: Callable[[Ops, torch.dtype], list[Tensor]]
    ulps: float
    magnitude: float | None = None


class Numbers:
    """Draws normal numbers for one device, the same ones each time it is made."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._generator = torch.Generator().manual_seed(0)

    def exact(self, *shape: int) -> Tensor:
        """Float32."""
        return torch.randn(shape, generator=self._generator).to(self.device)

    def rough(self, *shape: int) -> Tensor:
        """Float32 as well, but such as the model's type can hold."""
        return self.exact(*shape).to(self.dtype).float()
