"""RMS norms, compiled, and torch where they have no room."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.native.layout import in_rows, is_bfloat, together
from kernels.native.library import Library, address
from kernels.rms_norm import reference


class NativeNorms:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def rms_norm(self, inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor:
        if inputs.dim() not in {2, 3} or not in_rows(inputs):
            return reference.rms_norm(inputs, scale, epsilon)
        given = inputs if inputs.dim() == 3 else inputs.unsqueeze(1)
        result = torch.empty(inputs.shape, dtype=inputs.dtype)
        self._library.rms_norm(
            given.data_ptr(), scale.data_ptr(), result.data_ptr(), *given.shape,
            given.stride(0), given.stride(1), epsilon, is_bfloat(given), get_num_threads(),
        )  # fmt: skip
        return result

    def gated_rms_norm(
        self, inputs: Tensor, scale: Tensor, gate: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        fits = inputs.dim() == 3 and inputs.is_contiguous() and inputs.dtype == torch.float32
        if not (fits and in_rows(gate) and gate.dtype == dtype and together(gate)):
            return reference.gated_rms_norm(inputs, scale, gate, epsilon, dtype)
        result = torch.empty(inputs.shape, dtype=dtype)
        self._library.gated_rms_norm(
            inputs.data_ptr(), scale.data_ptr(), gate.data_ptr(), result.data_ptr(), *inputs.shape,
            gate.stride(0), epsilon, is_bfloat(result), get_num_threads(),
        )  # fmt: skip
        return result

    def gated_group_norm(
        self,
        inputs: Tensor,
        scale: Tensor | None,
        gate: Tensor,
        epsilon: float,
        multiplier: float,
        gate_first: bool,
    ) -> Tensor:
        if not (inputs.is_contiguous() and inputs.dtype == torch.float32 and in_rows(gate)):
            return reference.gated_group_norm(inputs, scale, gate, epsilon, multiplier, gate_first)
        result = torch.empty(gate.shape, dtype=gate.dtype)
        self._library.gated_group_norm(
            *map(address, (inputs, scale, gate, result)), *inputs.shape, gate.stride(0), epsilon,
            multiplier, gate_first, is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result
