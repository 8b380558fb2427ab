"""Compiled operations of layers with a state: rows of `kernels.native_ops`."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from kernels.common.shapes import DeltaInputs, SpaceInputs
from kernels.native.library import (
    TYPES,
    Kernel,
    Library,
    address,
    has_dense_tokens,
    in_rows,
    is_bfloat,
    is_float32,
)

# Sizes that the C files have room for.
_MOST_SCANNED_STATES = 64
_WIDEST_SPACE = 256
_WIDEST_DELTA_STEP, _WIDEST_DELTA_CHUNK = 1024, 256


def convolve(
    library: Library,
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor | None:
    taps, channels = weight.shape
    if not (in_rows(rows) and dtype in TYPES):
        return None
    result = torch.empty(rows.shape[0] - taps + 1, channels, dtype=dtype)
    library.convolve(
        *map(address, (rows, weight, bias, result)), *result.shape, taps, rows.stride(0),
        is_bfloat(rows), is_bfloat(result), get_num_threads(),
    )  # fmt: skip
    return result


def causal_conv_step(
    library: Library,
    inputs: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor | None:
    alike = tail.is_contiguous() and tail.dtype == inputs.dtype
    if not (alike and in_rows(inputs) and dtype in TYPES):
        return None
    result = torch.empty(inputs.shape, dtype=dtype)
    library.conv_step(
        *map(address, (inputs, tail, weight, bias, result)), *inputs.shape, weight.shape[0],
        inputs.stride(0), is_bfloat(inputs), is_bfloat(result),
    )  # fmt: skip
    return result


def short_conv(
    library: Library, projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor | None:
    taps, channels = weight.shape
    if not (in_rows(projected) and tail.is_contiguous() and tail.dtype == projected.dtype):
        return None
    num_tokens, dtype = projected.shape[0], projected.dtype
    result = torch.empty(num_tokens, channels, dtype=dtype)
    rows = torch.empty(num_tokens + taps - 1, channels, dtype=dtype)
    library.short_conv(
        *map(address, (projected, tail, weight, bias, result, rows)), *result.shape, taps,
        projected.stride(0), is_bfloat(projected), get_num_threads(),
    )  # fmt: skip
    return result


def delta_gates(
    library: Library,
    step: Tensor,
    beta: Tensor,
    rate: Tensor,
    bias: Tensor,
    multiplier: float = 1.0,
) -> tuple[Tensor, Tensor] | None:
    if not (step.dtype == beta.dtype and in_rows(step) and in_rows(beta)):
        return None
    decay, open_by = torch.empty(step.shape), torch.empty(beta.shape)
    library.delta_gates(
        *map(address, (step, beta, rate, bias, decay, open_by)), *step.shape, beta.shape[1],
        step.stride(0), beta.stride(0), multiplier, is_bfloat(step), get_num_threads(),
    )  # fmt: skip
    return decay, open_by


def delta_step(library: Library, given: DeltaInputs, state: Tensor) -> Tensor | None:
    fits = given.keys.shape[2] <= _WIDEST_DELTA_STEP
    return _delta_rule(library.delta_step, given, state) if fits else None


def delta_chunks(library: Library, given: DeltaInputs, state: Tensor) -> Tensor | None:
    key_dim, value_dim = state.shape[1:]
    fits = max(key_dim, value_dim) <= _WIDEST_DELTA_CHUNK and value_dim % 16 == 0
    fits = fits and given.keys.shape[0] > 0 and state.shape[0] % given.keys.shape[1] == 0
    return _delta_rule(library.delta_run, given, state) if fits else None


def _delta_rule(kernel: Kernel, given: DeltaInputs, state: Tensor) -> Tensor | None:
    rows = given[:3]
    dense = all(each.is_contiguous() for each in (given.decay, given.beta, state))
    if not (dense and all(map(is_float32, given)) and all(map(has_dense_tokens, rows))):
        return None
    result = torch.empty(given.values.shape)
    kernel(
        *map(address, (*given, state, result)), *given.keys.shape[:2], *state.shape,
        *(each.stride(0) for each in rows), given.decay.dim() == 3, get_num_threads(),
    )  # fmt: skip
    return result


def time_steps(
    library: Library,
    steps: Tensor,
    bias: Tensor,
    multiplier: float,
    shortest: float,
    longest: float,
) -> Tensor | None:
    if not in_rows(steps):
        return None
    result = torch.empty(steps.shape)
    library.time_steps(
        *map(address, (steps, bias, result)), *steps.shape, steps.stride(0), multiplier,
        shortest, longest, is_bfloat(steps), get_num_threads(),
    )  # fmt: skip
    return result


def mamba1(kernel: str, library: Library, given: SpaceInputs, state: Tensor) -> Tensor | None:
    rows, numbers = given[:3], (*given[3:], state)
    dim, channels = state.shape
    fits = channels % 16 == 0 and dim <= _MOST_SCANNED_STATES
    alike = len({each.dtype for each in rows}) == 1 and all(map(in_rows, rows))
    dense = all(is_float32(each) and each.is_contiguous() for each in numbers)
    if not (fits and alike and dense):
        return None
    result = torch.empty(given.steps.shape)
    getattr(library, kernel)(
        *map(address, (*given, state, result)), *given.inputs.shape, dim,
        *(each.stride(0) for each in rows), is_bfloat(given.inputs), get_num_threads(),
    )  # fmt: skip
    return result


def mamba2(kernel: str, library: Library, given: SpaceInputs, state: Tensor) -> Tensor | None:
    rows, numbers = given[:3], (*given[3:], state)
    heads, width, dim = state.shape
    groups = given.b.shape[1]
    fits = width <= _WIDEST_SPACE and dim % 16 == 0 and heads % groups == 0
    dense = all(map(has_dense_tokens, rows)) and all(each.is_contiguous() for each in numbers)
    float32 = all(map(is_float32, (*given, state)))
    if not (fits and float32 and dense and given.b.shape == given.c.shape):
        return None
    result = torch.empty(given.inputs.shape)
    getattr(library, kernel)(
        *map(address, (*given, state, result)), given.inputs.shape[0], heads, groups, width, dim,
        *(each.stride(0) for each in rows), get_num_threads(),
    )  # fmt: skip
    return result
