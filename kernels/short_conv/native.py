"""The gated short convolution, compiled, and torch where that has no room."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.native.layout import in_rows, is_bfloat
from kernels.native.library import Library, address
from kernels.short_conv import reference


class NativeShortConv:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def short_conv(
        self, projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        taps, channels = weight.shape
        alike = tail.is_contiguous() and tail.dtype == projected.dtype
        if not (in_rows(projected) and alike):
            return reference.short_conv(projected, tail, weight, bias)
        num_tokens, dtype = projected.shape[0], projected.dtype
        result = torch.empty(num_tokens, channels, dtype=dtype)
        rows = torch.empty(num_tokens + taps - 1, channels, dtype=dtype)
        self._library.short_conv(
            *map(address, (projected, tail, weight, bias, result, rows)), *result.shape, taps,
            projected.stride(0), is_bfloat(projected), get_num_threads(),
        )  # fmt: skip
        return result
