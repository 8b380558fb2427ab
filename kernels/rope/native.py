"""Rotation, compiled, and torch where that has no room."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.native.layout import in_rows, is_bfloat
from kernels.native.library import Library, address
from kernels.rope import reference


class NativeRotation:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def rotate(self, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        alike = heads.dtype == cosine.dtype == sine.dtype
        if not (alike and in_rows(heads) and cosine.is_contiguous() and sine.is_contiguous()):
            return reference.rotate(heads, cosine, sine)
        result = torch.empty(heads.shape, dtype=heads.dtype)
        self._library.rotate(
            *map(address, (heads, cosine, sine, result)), *heads.shape, cosine.shape[1],
            heads.stride(0), heads.stride(1), is_bfloat(heads), get_num_threads(),
        )  # fmt: skip
        return result
