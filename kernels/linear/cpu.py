"""Matrices in oneDNN's own layout, which a processor reads faster than rows of [outputs, inputs].

The layout is chosen for one row, because generating waits for memory; longer inputs go through the
same packed copy in slices of `rows`. On an AMD Zen 5, 512 rows at once run at 352 GFLOP/s in a copy
packed for one row and at 946 in slices of 64; other processors have other best sizes, so the size
is measured (kernels.dispatch) and not written here. A matrix that never sees a single row is packed
for many, and takes all of them at once: no slices have to be laid beside each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.linear.reference import Matrix, PlainFormat, QuantisedTensors

_MANY = 1024  # patches of a picture of 512 by 512


def can_pack(dtype: torch.dtype) -> bool:
    """Whether this processor's oneDNN multiplies in `dtype`."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (
        dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


class PackedMatrix(Matrix):
    """A `Matrix` (kernels.linear.reference) as an opaque copy of the weight and its bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int | None) -> None:
        """Slices have `rows` rows; with None there are none, and few rows are slow."""
        usual = _MANY if rows is None else 1
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, usual)
        self._bias = bias
        self._rows = rows
        self.num_outputs = weight.shape[0]
        self.num_bytes = weight.nbytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`; slices have `rows` rows, the last what is left."""
        if self._rows is None or inputs.shape[0] <= self._rows:
            return self._multiply(inputs)
        return torch.cat([self._multiply(block) for block in torch.split(inputs, self._rows)])

    def _multiply(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self._packed, self._bias, "none", [], ""
        )
        return outputs


class PackedFormat(PlainFormat):
    """Weights in their own type, packed; matrices take `rows` rows at once, or all there are."""

    is_plain = False

    def __init__(self, rows: int | None) -> None:
        self._rows = rows

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat` (kernels.linear.reference)."""
        (weight,) = kept
        return PackedMatrix(weight, bias, self._rows)
