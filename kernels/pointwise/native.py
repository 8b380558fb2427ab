"""Gates and sums, compiled, and torch where they have no room."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, get_num_threads

from kernels.native.layout import in_rows, is_bfloat
from kernels.native.library import TYPES, Library, address
from kernels.pointwise import reference


class NativePointwise:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def swiglu(self, gate: Tensor, up: Tensor, multiplier: float = 1.0) -> Tensor:
        product = self._gated_product(self._library.swiglu, gate, up, multiplier)
        return reference.swiglu(gate, up, multiplier) if product is None else product

    def geglu(self, gate: Tensor, up: Tensor) -> Tensor:
        product = self._gated_product(self._library.geglu, gate, up, 1.0)
        return reference.geglu(gate, up) if product is None else product

    def squared_relu(self, inputs: Tensor) -> Tensor:
        product = self._gated_product(self._library.reglu, inputs, inputs, 1.0)
        return reference.squared_relu(inputs) if product is None else product

    @staticmethod
    def _gated_product(
        kernel: Callable[..., None], gate: Tensor, up: Tensor, multiplier: float
    ) -> Tensor | None:
        alike = gate.stride() == up.stride() and gate.dtype == up.dtype
        if not (alike and gate.dim() == 2 and in_rows(gate)):
            return None
        result = torch.empty(gate.shape, dtype=gate.dtype)
        kernel(
            *map(address, (gate, up, result)), *gate.shape, gate.stride(0), multiplier,
            is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result

    def open_gate(self, attended: Tensor, gate: Tensor) -> Tensor:
        alike = attended.dtype == gate.dtype and attended.shape == gate.shape
        if not (alike and in_rows(gate) and attended.is_contiguous()):
            return reference.open_gate(attended, gate)
        result = torch.empty(gate.shape, dtype=gate.dtype)
        self._library.open_gate(
            *map(address, (attended, gate, result)), *gate.shape, gate.stride(0), gate.stride(1),
            is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result

    def add(self, first: Tensor, second: Tensor, multiplier: float = 1.0) -> Tensor:
        alike = first.dtype == second.dtype and first.shape == second.shape
        together = first.is_contiguous() and second.is_contiguous() and first.dim() == 2
        if not (alike and together and first.dtype in TYPES):
            return reference.add(first, second, multiplier)
        result = torch.empty(first.shape, dtype=first.dtype)
        self._library.add(
            *map(address, (first, second, result)), *first.shape, multiplier, is_bfloat(first),
            get_num_threads(),
        )  # fmt: skip
        return result
