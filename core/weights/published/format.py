"""What every published format offers: which tensors a layer is stored as, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.weights.published.quantised import Dequantisable
from core.weights.spec import Shape

SCALE_TYPES = ("F16", "BF16", "F32")


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor that a layer is stored as: the types it may have (safetensors' names), its shape."""

    types: tuple[str, ...]
    shape: Shape
    optional: bool = False


class Format(Protocol):
    """A way to store a linear layer. Its repr holds all that its numbers depend on.

    `values` names the large part, which holds a number for every weight; `names` are all parts
    that the format knows, of which a layer may lack some. `working_bytes` are needed for each
    weight while a layer is read, beyond the result.
    """

    @property
    def title(self) -> str: ...

    @property
    def values(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def working_bytes(self) -> int: ...

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        """The parts of a layer with weights [out, in], by the last part of their names.

        Raises UnsupportedQuantisationError where the format can't hold such a shape.
        """
        ...

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Dequantisable:
        """The layer's weights, from parts as `parts` describes them.

        `layer` is for messages. Raises BrokenWeightsError for numbers that can't be.
        """
        ...


def checked_scales(layer: str, stored: Tensor) -> Tensor:
    """Scales in float32, in memory of their own; every one must be a finite number."""
    scales = stored.float().contiguous()
    if not bool(scales.isfinite().all()):
        raise BrokenWeightsError(f"A scale of {layer} is not a finite number.")
    return scales


def checked_groups(layer: str, stored: Tensor, num_groups: int, group_size: int) -> Tensor | None:
    """Which group every column belongs to, int64 [in]; None for groups one after the other."""
    groups = stored.long()
    if bool(((groups < 0) | (groups >= num_groups)).any()):
        raise BrokenWeightsError(
            f"The order of the groups of {layer} names one that is not there: "
            f"{int(groups.min())} to {int(groups.max())}, it has {num_groups}."
        )
    in_order = torch.arange(groups.shape[0], device=groups.device) // group_size
    return None if torch.equal(groups, in_order) else groups


def unless_zero(zeros: Tensor) -> Tensor | None:
    """`zeros`, or None where nothing would be subtracted."""
    return zeros if bool(zeros.any()) else None
