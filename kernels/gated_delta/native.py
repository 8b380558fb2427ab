"""The gated delta rule, compiled, and torch where that has no room."""

from __future__ import annotations

from collections.abc import Callable

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
        inputs, gates = (queries, keys, values), (decay, beta)
        fits = keys.shape[2] <= _WIDEST_KEY
        if not (fits and _readable(inputs, gates, state)):
            return reference.recurrent_gated_delta_step(*inputs, *gates, state=state)
        return _over(self._library.delta_step, inputs, gates, state)

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
        if not (fits and _readable(inputs, gates, state)):
            return reference.chunked_gated_delta_(*inputs, *gates, state=state)
        return _over(self._library.delta_run, inputs, gates, state)

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


Given = tuple[Tensor, ...]


def _readable(inputs: Given, gates: Given, state: Tensor) -> bool:
    """Whether queries, keys and values, decay and beta lie as the kernels read them."""
    float32 = all(each.dtype == torch.float32 for each in (*inputs, *gates))
    whole = all(each.is_contiguous() for each in (*gates, state))
    return float32 and whole and all(map(together, inputs))


def _over(kernel: Callable[..., None], inputs: Given, gates: Given, state: Tensor) -> Tensor:
    """What `kernel` reads of the state, which it updates."""
    _, keys, values = inputs
    result = torch.empty(values.shape)
    kernel(
        *map(address, (*inputs, *gates, state, result)), *keys.shape[:2], *state.shape,
        *(each.stride(0) for each in inputs), get_num_threads(),
    )  # fmt: skip
    return result
