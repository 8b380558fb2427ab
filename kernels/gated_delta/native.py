"""The gated delta rule, compiled, and torch where that has no room."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.gated_delta import reference
from kernels.native.layout import in_rows, is_bfloat, together
from kernels.native.library import Library, address

_WIDEST_KEY = 1024  # of native.c
_WIDEST_IN_CHUNKS = 256  # of native_chunked.c


class NativeDeltaRule:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def recurrent_gated_delta_step(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        decay: Tensor,
        beta: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        inputs = (queries, keys, values, decay, beta)
        fits = keys.shape[2] <= _WIDEST_KEY and state.is_contiguous()
        if not (fits and all(each.dtype == torch.float32 and together(each) for each in inputs)):
            return reference.recurrent_gated_delta_step(*inputs, state=state)
        result = torch.empty(values.shape)
        self._library.delta_step(
            *map(address, inputs), state.data_ptr(), result.data_ptr(), keys.shape[1], *state.shape,
            get_num_threads(),
        )  # fmt: skip
        return result

    def chunked_gated_delta_(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        decay: Tensor,
        beta: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        inputs, gates = (queries, keys, values), (decay, beta)
        key_dim, value_dim = state.shape[1:]
        fits = max(key_dim, value_dim) <= _WIDEST_IN_CHUNKS and value_dim % 16 == 0
        fits = fits and keys.shape[0] > 0 and state.shape[0] % keys.shape[1] == 0
        float32 = all(each.dtype == torch.float32 for each in (*inputs, *gates))
        lie = all(map(together, inputs)) and all(each.is_contiguous() for each in (*gates, state))
        if not (fits and float32 and lie):
            return reference.chunked_gated_delta_(*inputs, *gates, state=state)
        result = torch.empty(values.shape)
        self._library.delta_run(
            *map(address, (*inputs, *gates, state, result)), keys.shape[0], keys.shape[1],
            *state.shape, *(each.stride(0) for each in inputs), get_num_threads(),
        )  # fmt: skip
        return result

    def delta_gates(
        self, step: Tensor, beta: Tensor, rate: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        alike = step.stride() == beta.stride() and step.dtype == beta.dtype
        if not (alike and in_rows(step)):
            return reference.delta_gates(step, beta, rate, bias)
        decay, open_by = torch.empty(step.shape), torch.empty(step.shape)
        self._library.delta_gates(
            *map(address, (step, beta, rate, bias, decay, open_by)), *step.shape, step.stride(0),
            is_bfloat(step),
        )  # fmt: skip
        return decay, open_by
