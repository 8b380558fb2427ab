"""Compiled attention: rows of `kernels.native_ops`. Returns None for tensors that the kernel
doesn't take.

`widened`: many tokens run without the processor's bfloat16 instructions.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, get_num_threads

from kernels.common.trace import NotCapturableError
from kernels.native.library import TYPES, Library, address, has_dense_tokens, is_bfloat

_WIDEST_HEAD = 512  # that the C files have room for


def causal_attention(
    library: Library,
    widened: bool,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
) -> Tensor | None:
    if queries.shape[0] == 1:
        return step_attention(library, queries, keys, values, scale, window)
    return _many(library, widened, True, queries, keys, values, scale, window)


def run_attention(
    library: Library,
    widened: bool,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
) -> Tensor | None:
    return _many(library, widened, False, queries, keys, values, scale, window)


full_attention = run_attention


def step_attention(
    library: Library,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
) -> Tensor | None:
    if not (_fits(queries, keys, values) and queries.dtype in TYPES):
        return None
    num_tokens = queries.shape[0]
    result = torch.empty(queries.shape, dtype=queries.dtype)
    library.attend(
        *map(address, (queries, keys, values, result)), _token_of(library, keys, num_tokens),
        num_tokens, keys.shape[0] - num_tokens + 1, window or 0, *_groups(queries, keys),
        queries.stride(0), keys.stride(0), values.stride(0), scale, is_bfloat(queries),
        get_num_threads(),
    )  # fmt: skip
    return result


def _many(
    library: Library,
    widened: bool,
    causal: bool,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None,
) -> Tensor | None:
    if not (is_bfloat(queries) and scale > 0 and _fits(queries, keys, values)):
        return None
    if library.token is not None:
        raise NotCapturableError("attention of many tokens")
    result = torch.empty(queries.shape, dtype=queries.dtype)
    library.attend_many(
        *map(address, (queries, keys, values, result)), queries.shape[0], keys.shape[0],
        window or 0, *_groups(queries, keys), queries.stride(0), keys.stride(0),
        values.stride(0), scale, causal, get_num_threads(), widened,
    )  # fmt: skip
    return result


def _token_of(library: Library, keys: Tensor, num_tokens: int) -> int | None:
    """Address of the first token's number during capture; a replay has more keys."""
    if library.token is None:
        return None
    if keys.shape[0] != library.token.value + num_tokens:
        raise NotCapturableError("attention to a part of the context")
    return ctypes.addressof(library.token)


def _fits(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    alike = queries.dtype == keys.dtype == values.dtype and keys.shape == values.shape
    fits = 0 < queries.shape[2] == keys.shape[2] <= _WIDEST_HEAD and keys.shape[0] > 0
    shared = keys.shape[1] > 0 and queries.shape[1] % keys.shape[1] == 0
    return alike and fits and shared and all(map(has_dense_tokens, (queries, keys, values)))


def _groups(queries: Tensor, keys: Tensor) -> tuple[int, int, int]:
    """Key heads, query heads for each, and the head width."""
    return keys.shape[1], queries.shape[1] // keys.shape[1], queries.shape[2]
