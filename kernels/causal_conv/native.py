"""The causal convolution, compiled, and torch where that has no room."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.causal_conv import reference
from kernels.native.layout import in_rows, is_bfloat
from kernels.native.library import TYPES, Library, address


class NativeConvolution:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def convolve(
        self,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        taps, channels = weight.shape
        if not (in_rows(rows) and dtype in TYPES):
            return reference.convolve(rows, weight, bias, dtype)
        result = torch.empty(rows.shape[0] - taps + 1, channels, dtype=dtype)
        self._library.convolve(
            *map(address, (rows, weight, bias, result)), *result.shape, taps, rows.stride(0),
            is_bfloat(rows), is_bfloat(result), get_num_threads(),
        )  # fmt: skip
        return result

    def causal_conv_step(
        self,
        inputs: Tensor,
        tail: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        taps = weight.shape[0]
        lie = tail.is_contiguous() and tail.dtype == inputs.dtype
        if not (in_rows(inputs) and lie and dtype in TYPES):
            return reference.causal_conv_step(inputs, tail, weight, bias, dtype)
        result = torch.empty(inputs.shape, dtype=dtype)
        self._library.conv_step(
            *map(address, (inputs, tail, weight, bias, result)), *inputs.shape, taps,
            inputs.stride(0), is_bfloat(inputs), is_bfloat(result),
        )  # fmt: skip
        return result
