"""Weights of one linear layer as small numbers with scales."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.weights.spec import Shape

SCALE_TYPES = ("F16", "BF16", "F32")
# Numbers turned into floats at a time: 4 MB of float32, which stays in a processor's cache.
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Part:
    types: tuple[str, ...]
    shape: Shape
    optional: bool = False


def checked_scales(layer: str, stored: Tensor) -> Tensor:
    """Return a float32 copy. Raises BrokenWeightsError unless finite."""
    scales = stored.float().contiguous()
    if not bool(scales.isfinite().all()):
        raise BrokenWeightsError(f"A scale of {layer} is not a finite number.")
    return scales


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """weight[o, i] = (values[o, i] - zeros[o, g]) * scales[o, g], where g is the group of column i.

    `values` is int8 [out, in]; 4-bit formats use -8 to 7. `scales` is float32 [out, groups], and
    `zeros` int8 [out, groups], or None if all are 0. The group of a column is `column //
    group_size`, unless `groups` (int64 [in]) says otherwise.
    """

    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    group_size: int
    groups: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def write_to(self, target: Tensor) -> None:
        """Each number is computed in float32 and rounded once."""
        rows = max(1, _BLOCK // max(1, self.shape[1]))
        for start in range(0, self.shape[0], rows):
            block = slice(start, start + rows)
            weights = self.values[block].float()
            grouped = self._grouped(weights)
            if self.zeros is not None:
                grouped -= self._spread(self.zeros[block].float())
            grouped *= self._spread(self.scales[block])
            target[block] = weights

    @property
    def _whole(self) -> bool:
        return self.groups is None and self.shape[1] % self.group_size == 0

    def _grouped(self, weights: Tensor) -> Tensor:
        """A view that `_spread` fits: whole groups need no copy of their scales."""
        return weights.view(weights.shape[0], -1, self.group_size) if self._whole else weights

    def _spread(self, by_group: Tensor) -> Tensor:
        """[rows, groups] -> [rows, groups, 1] for whole groups, [rows, in] for others."""
        if self._whole:
            return by_group[..., None]
        if self.groups is not None:
            return by_group[:, self.groups]
        return by_group.repeat_interleave(self.group_size, dim=1)[:, : self.shape[1]]


@dataclass(frozen=True, slots=True, eq=False)
class Float8Blocks:
    """weight[o, i] = values[o, i] * scales[o // height, i // width], with `block` (height, width).

    `values` is float8 e4m3 [out, in], `scales` float32 [blocks down, blocks across]; the last block
    of either axis may be shorter.
    """

    values: Tensor
    scales: Tensor
    block: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def write_to(self, target: Tensor) -> None:
        height, width = self.block
        for index, start in enumerate(range(0, self.shape[0], height)):
            block = slice(start, start + height)
            by_column = self.scales[index].repeat_interleave(width)[: self.shape[1]]
            target[block] = self.values[block].float().mul_(by_column)
