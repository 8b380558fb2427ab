"""Mamba-1's selective scan, compiled, and torch where that has no room."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, get_num_threads

from kernels.mamba1 import reference
from kernels.native.layout import in_rows, is_bfloat, is_plain
from kernels.native.library import Library, address

_MOST_STATES = 64  # of native.c


class NativeScan:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def mamba1_step(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._scan(self._library.mamba1_step, *given, state)
        return reference.mamba1_step(*given, state=state) if found is None else found

    def mamba1_run_(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._scan(self._library.mamba1_run, *given, state)
        return reference.mamba1_run_(*given, state=state) if found is None else found

    @staticmethod
    def _scan(
        kernel: Callable[..., None],
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        state: Tensor,
    ) -> Tensor | None:
        rows, numbers = (inputs, b, c), (steps, rate, skip, state)
        dim, channels = state.shape
        fits = channels % 16 == 0 and dim <= _MOST_STATES
        alike = inputs.dtype == b.dtype == c.dtype and all(map(in_rows, rows))
        if not (fits and alike and all(map(is_plain, numbers))):
            return None
        result = torch.empty(steps.shape)
        kernel(
            *map(address, (*rows, *numbers, result)), *inputs.shape, dim,
            *(each.stride(0) for each in rows), is_bfloat(inputs), get_num_threads(),
        )  # fmt: skip
        return result
