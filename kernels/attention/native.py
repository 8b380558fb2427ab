"""Attention of one token and of many, compiled, and torch where they have no room."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, get_num_threads

from kernels.attention import fused
from kernels.common.trace import NotCapturableError
from kernels.native.layout import is_bfloat, together
from kernels.native.library import TYPES, Library, address

_WIDEST_HEAD = 512  # of the two kernels beside


class NativeAttention:
    """As the functions of the same names in `fused`.

    `widened`: many tokens go without the processor's bfloat16 instructions.
    """

    def __init__(self, library: Library, widened: bool) -> None:
        self._library, self._widened = library, widened

    def causal_attention(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None = None,
    ) -> Tensor:
        if queries.shape[0] == 1:
            return self.step_attention(queries, keys, values, scale, window)
        found = self._attention_of_many(queries, keys, values, scale, window, causal=True)
        if found is None:
            return fused.causal_attention(queries, keys, values, scale, window)
        return found

    def step_attention(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None = None,
    ) -> Tensor:
        if not (_attended(queries, keys, values) and queries.dtype in TYPES):
            return fused.step_attention(queries, keys, values, scale, window)
        num_tokens = queries.shape[0]
        result = torch.empty(queries.shape, dtype=queries.dtype)
        self._library.attend(
            *map(address, (queries, keys, values, result)), self._token_of(keys, num_tokens),
            num_tokens, keys.shape[0] - num_tokens + 1, window or 0, *_groups(queries, keys),
            queries.stride(0), keys.stride(0), values.stride(0), scale, is_bfloat(queries),
            get_num_threads(),
        )  # fmt: skip
        return result

    def run_attention(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None = None,
    ) -> Tensor:
        found = self._attention_of_many(queries, keys, values, scale, window, causal=False)
        if found is None:
            return fused.run_attention(queries, keys, values, scale, window)
        return found

    def full_attention(self, queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        found = self._attention_of_many(queries, keys, values, scale, None, causal=False)
        return fused.full_attention(queries, keys, values, scale) if found is None else found

    def _attention_of_many(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None,
        *,
        causal: bool,
    ) -> Tensor | None:
        if not (is_bfloat(queries) and scale > 0 and _attended(queries, keys, values)):
            return None
        if self._library.token is not None:
            raise NotCapturableError("attention of many tokens")
        result = torch.empty(queries.shape, dtype=queries.dtype)
        self._library.attend_many(
            *map(address, (queries, keys, values, result)), queries.shape[0], keys.shape[0],
            window or 0, *_groups(queries, keys), queries.stride(0), keys.stride(0),
            values.stride(0), scale, causal, get_num_threads(), self._widened,
        )  # fmt: skip
        return result

    def _token_of(self, keys: Tensor, num_tokens: int) -> int | None:
        """Where the first token's number lies while a step is captured, whose keys will be more."""
        token = self._library.token
        if token is None:
            return None
        if keys.shape[0] != token.value + num_tokens:
            raise NotCapturableError("attention to a part of the context")
        return ctypes.addressof(token)


def _attended(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether there are keys of as many numbers as kernels have room for, and lie as they read."""
    alike = queries.dtype == keys.dtype == values.dtype and keys.shape == values.shape
    fits = 0 < queries.shape[2] == keys.shape[2] <= _WIDEST_HEAD and keys.shape[0] > 0
    shared = keys.shape[1] > 0 and queries.shape[1] % keys.shape[1] == 0
    return alike and fits and shared and all(map(together, (queries, keys, values)))


def _groups(queries: Tensor, keys: Tensor) -> tuple[int, int, int]:
    """Heads of keys, queries that share one, and numbers of a head."""
    return keys.shape[1], queries.shape[1] // keys.shape[1], queries.shape[2]
