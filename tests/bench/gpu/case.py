"""One op of the GPU kernels with its arguments, its floor, and who else can do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from tests.bench.folders import RELEASED, TINY, Shape

Call = Callable[[int], object]
"""One call of an op on the arguments of this number."""
PLAIN, FLA = "plain torch", "flash-linear-attention"
EPSILON = 1e-6


@dataclass(frozen=True)
class Sizes:
    """How much each op is given: tokens of runs and contexts, bytes of arguments, rounds.

    Arguments take turns through `apart` bytes, more than a GPU's own cache, or through as many
    copies as `copies`. A round makes calls until `seconds` are over, `calls` at most.
    """

    shape: Shape = RELEASED["0.8B"]
    run: int = 512
    delta_runs: tuple[int, ...] = (512, 2_048, 8_192, 32_768)
    contexts: tuple[int, ...] = (512, 8_192, 32_768)
    few_rows: tuple[int, ...] = (1, 16)
    apart: int = 256 * 2**20
    copies: int = 64
    rounds: int = 5
    seconds: float = 0.02
    calls: int = 200


QUICK = Sizes(
    TINY, run=20, delta_runs=(20, 70), contexts=(5, 40), few_rows=(1, 3), apart=2**10, copies=2,
    rounds=2, seconds=0.0, calls=1,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An op, what it has to move and to compute at least, and others that do the same.

    The first tensor that a call returns is compared with that of the others. Of `others` a text
    says why there is none.
    """

    name: str
    run: Call
    copies: int
    least_bytes: int
    operations: int = 0
    others: Mapping[str, Call | str] = field(default_factory=dict)


class Numbers:
    """Makes random arguments on one device."""

    def __init__(self, sizes: Sizes, device: torch.device) -> None:
        self.sizes, self.device = sizes, device
        self._generator = torch.Generator(device).manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        found = torch.randn(shape, generator=self._generator, device=self.device)
        return found.to(dtype)

    def uniform(self, *shape: int) -> Tensor:
        """In [0, 1)."""
        return torch.rand(shape, generator=self._generator, device=self.device)

    def copies_of(self, num_bytes: int) -> int:
        """How many arguments of so many bytes take turns."""
        return max(1, min(self.sizes.copies, self.sizes.apart // num_bytes))

    def apart(self, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Tensors of the same numbers, one beside the other, that take turns."""
        first = self.normal(*shape, dtype=dtype)
        return copied(first, self.copies_of(prod(shape) * dtype.itemsize))


def copied(tensor: Tensor, count: int) -> list[Tensor]:
    """The tensor and so many copies that they are `count`."""
    return [tensor, *(tensor.clone() for _ in range(count - 1))]


def rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
