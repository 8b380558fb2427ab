"""Mamba-2's state space and time steps, compiled, and torch where they have no room."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, get_num_threads

from kernels.mamba2 import reference
from kernels.native.layout import in_rows, is_bfloat, together
from kernels.native.library import Library, address

_WIDEST_SPACE = 256  # of native.c


class NativeStateSpace:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def time_steps(
        self, steps: Tensor, bias: Tensor, multiplier: float, shortest: float, longest: float
    ) -> Tensor:
        if not in_rows(steps):
            return reference.time_steps(steps, bias, multiplier, shortest, longest)
        result = torch.empty(steps.shape)
        self._library.time_steps(
            *map(address, (steps, bias, result)), *steps.shape, steps.stride(0), multiplier,
            shortest, longest, is_bfloat(steps), get_num_threads(),
        )  # fmt: skip
        return result

    def mamba2_step(
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
        found = self._state_space(self._library.mamba2_step, *given, state)
        return reference.mamba2_step(*given, state=state) if found is None else found

    def mamba2_run_(
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
        found = self._state_space(self._library.mamba2_run, *given, state)
        return reference.mamba2_run_(*given, state=state) if found is None else found

    @staticmethod
    def _state_space(
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
        heads, width, dim = state.shape
        fits = width <= _WIDEST_SPACE and dim % 16 == 0 and heads % b.shape[1] == 0
        float32 = all(each.dtype == torch.float32 for each in (*rows, *numbers))
        lie = all(map(together, rows)) and all(each.is_contiguous() for each in numbers)
        if not (fits and float32 and lie and b.shape == c.shape):
            return None
        result = torch.empty(inputs.shape)
        kernel(
            *map(address, (*rows, *numbers, result)), inputs.shape[0], heads, b.shape[1], width,
            dim, *(each.stride(0) for each in rows), get_num_threads(),
        )  # fmt: skip
        return result
