"""The operations of the compiled kernels, in one table.

Each returns None for tensors that its kernel doesn't take, which plain torch then computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Concatenate

import torch
from torch import Tensor, get_num_threads

from kernels.common.trace import NotCapturableError
from kernels.experts.native import make_bank, route, weighted_sum
from kernels.native import recurrent
from kernels.native.library import (
    TYPES,
    Library,
    address,
    has_dense_tokens,
    in_rows,
    is_bfloat,
    is_float32,
)
from kernels.ops import PLAIN_OPS, Ops, composed

_WIDEST_HEAD = 576  # that the C files have room for

Native = Callable[Concatenate[Library, ...], Any]


def native_ops(library: Library, widened: bool = False) -> Ops:
    """`widened`: attention of many tokens without the processor's bfloat16 instructions."""
    bound: dict[str, Any] = {
        name: _or_plain(native, getattr(PLAIN_OPS, name), library)
        for name, native in _TABLE.items()
    } | {
        name: _or_plain(native, getattr(PLAIN_OPS, name), library, widened)
        for name, native in _ATTENTION_OF_MANY.items()
    }
    return composed(replace(PLAIN_OPS, experts=partial(make_bank, library, widened), **bound))


def _or_plain(native: Native, plain: Callable[..., Any], *bound: Any) -> Callable[..., Any]:
    @wraps(plain)
    def operation(*given: Any, **named: Any) -> Any:
        found = native(*bound, *given, **named)
        return plain(*given, **named) if found is None else found

    return operation


def _rms_norm(library: Library, inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor | None:
    if inputs.dim() not in {2, 3} or not in_rows(inputs):
        return None
    given = inputs if inputs.dim() == 3 else inputs.unsqueeze(1)
    width, result = scale.shape[0], torch.empty(inputs.shape, dtype=inputs.dtype)
    library.rms_norm(
        given.data_ptr(), scale.data_ptr(), result.data_ptr(), *given.shape[:2], width,
        given.shape[2] - width, *given.stride()[:2], epsilon, is_bfloat(given), get_num_threads(),
    )  # fmt: skip
    return result


def _gated_rms_norm(
    library: Library,
    inputs: Tensor,
    scale: Tensor,
    gate: Tensor,
    epsilon: float,
    dtype: torch.dtype,
    sigmoid: bool = False,
) -> Tensor | None:
    fits = inputs.dim() == 3 and is_float32(inputs) and inputs.is_contiguous()
    if not (fits and in_rows(gate) and gate.dtype == dtype and has_dense_tokens(gate)):
        return None
    result = torch.empty(inputs.shape, dtype=dtype)
    library.gated_rms_norm(
        *map(address, (inputs, scale, gate, result)), *inputs.shape, gate.stride(0), epsilon,
        sigmoid, is_bfloat(result), get_num_threads(),
    )  # fmt: skip
    return result


def _gated_group_norm(
    library: Library,
    inputs: Tensor,
    scale: Tensor | None,
    gate: Tensor,
    epsilon: float,
    multiplier: float,
    gate_first: bool,
) -> Tensor | None:
    if not (is_float32(inputs) and inputs.is_contiguous() and in_rows(gate)):
        return None
    result = torch.empty(gate.shape, dtype=gate.dtype)
    library.gated_group_norm(
        *map(address, (inputs, scale, gate, result)), *inputs.shape, gate.stride(0), epsilon,
        multiplier, gate_first, is_bfloat(gate), get_num_threads(),
    )  # fmt: skip
    return result


def _rotate(library: Library, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor | None:
    fits = cosine.dtype == sine.dtype and cosine.dtype in {heads.dtype, torch.float32}
    if not (fits and in_rows(heads) and cosine.is_contiguous() and sine.is_contiguous()):
        return None
    result = torch.empty(heads.shape, dtype=heads.dtype)
    library.rotate(
        *map(address, (heads, cosine, sine, result)), *heads.shape, cosine.shape[1],
        heads.stride(0), heads.stride(1), is_bfloat(heads), is_float32(cosine), get_num_threads(),
    )  # fmt: skip
    return result


def _gated_product(
    kernel: str, library: Library, gate: Tensor, up: Tensor, multiplier: float = 1.0,
    limit: float = 0.0,
) -> Tensor | None:  # fmt: skip
    alike = gate.shape == up.shape and gate.dtype == up.dtype
    if not (alike and gate.dim() == 2 and in_rows(gate) and in_rows(up)):
        return None
    result = torch.empty(gate.shape, dtype=gate.dtype)
    getattr(library, kernel)(
        *map(address, (gate, up, result)), *gate.shape, gate.stride(0), up.stride(0), multiplier,
        limit, is_bfloat(gate), get_num_threads(),
    )  # fmt: skip
    return result


def _of_one(kernel: str, library: Library, inputs: Tensor) -> Tensor | None:
    return _gated_product(kernel, library, inputs, inputs)


def _open_gate(library: Library, attended: Tensor, gate: Tensor) -> Tensor | None:
    alike = attended.dtype == gate.dtype and attended.shape[:2] == gate.shape[:2]
    fits = gate.shape[2] in {1, attended.shape[2]}
    if not (alike and fits and in_rows(gate) and attended.is_contiguous()):
        return None
    result = torch.empty(attended.shape, dtype=gate.dtype)
    library.open_gate(
        *map(address, (attended, gate, result)), *attended.shape, gate.shape[2],
        gate.stride(0), gate.stride(1), is_bfloat(gate), get_num_threads(),
    )  # fmt: skip
    return result


def _add(
    library: Library, first: Tensor, second: Tensor, multiplier: float = 1.0, scale: float = 1.0
) -> Tensor | None:
    alike = first.dtype == second.dtype and first.shape == second.shape
    if not (alike and first.dim() == 2 and in_rows(first) and in_rows(second)):
        return None
    result = torch.empty(first.shape, dtype=first.dtype)
    library.add(
        *map(address, (first, second, result)), *first.shape, first.stride(0), second.stride(0),
        multiplier, scale, is_bfloat(first), get_num_threads(),
    )  # fmt: skip
    return result


def _causal_attention(
    library: Library, widened: bool, queries: Tensor, *others: Any
) -> Tensor | None:
    if queries.shape[0] == 1:
        return _step_attention(library, queries, *others)
    return _attend_many(library, widened, queries, *others, causal=True)


def _step_attention(
    library: Library,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor | None:
    if not (_fits(queries, keys, values, sinks) and queries.dtype in TYPES):
        return None
    num_tokens = queries.shape[0]
    result = torch.empty(queries.shape, dtype=queries.dtype)
    library.attend(
        *map(address, (queries, keys, values, result)), _row_of(library, keys, values, num_tokens),
        address(sinks), num_tokens, keys.shape[0] - num_tokens + 1, window or 0,
        *_groups(queries, keys), queries.stride(0), keys.stride(0), values.stride(0), scale,
        is_bfloat(queries), get_num_threads(),
    )  # fmt: skip
    return result


def _attend_many(
    library: Library,
    widened: bool,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
    *,
    causal: bool = False,
) -> Tensor | None:
    if not (is_bfloat(queries) and scale > 0 and _fits(queries, keys, values, sinks)):
        return None
    if library.stored is not None:
        raise NotCapturableError("attention of many tokens")
    result = torch.empty(queries.shape, dtype=queries.dtype)
    library.attend_many(
        *map(address, (queries, keys, values, result, sinks)),
        queries.shape[0], keys.shape[0], window or 0, *_groups(queries, keys), queries.stride(0),
        keys.stride(0), values.stride(0), scale, causal, get_num_threads(), widened,
    )  # fmt: skip
    return result


def _row_of(library: Library, keys: Tensor, values: Tensor, num_tokens: int) -> int | None:
    """Address of the first token's row during capture; a replay has more keys."""
    if library.stored is None:
        return None
    rows = [library.stored.get(each.data_ptr()) for each in (keys, values)]
    if rows[0] is None or rows[0] is not rows[1]:
        raise NotCapturableError("attention to rows that don't grow")
    if keys.shape[0] != rows[0].value + num_tokens:
        raise NotCapturableError("attention to a part of the context")
    return ctypes.addressof(rows[0])


def _fits(queries: Tensor, keys: Tensor, values: Tensor, sinks: Tensor | None) -> bool:
    alike = queries.dtype == keys.dtype == values.dtype and keys.shape == values.shape
    fits = 0 < queries.shape[2] == keys.shape[2] <= _WIDEST_HEAD and keys.shape[0] > 0
    shared = keys.shape[1] > 0 and queries.shape[1] % keys.shape[1] == 0
    plain = sinks is None or (sinks.dtype == torch.float32 and sinks.is_contiguous())
    return (
        alike and fits and shared and plain and all(map(has_dense_tokens, (queries, keys, values)))
    )


def _groups(queries: Tensor, keys: Tensor) -> tuple[int, int, int]:
    """Key heads, query heads for each, and the head width."""
    return keys.shape[1], queries.shape[1] // keys.shape[1], queries.shape[2]


_TABLE: dict[str, Native] = {
    "rms_norm": _rms_norm,
    "gated_rms_norm": _gated_rms_norm,
    "gated_group_norm": _gated_group_norm,
    "rotate": _rotate,
    "swiglu": partial(_gated_product, "swiglu"),
    "geglu": partial(_gated_product, "geglu"),
    "clamped_swiglu": partial(_gated_product, "clamped_swiglu"),
    "squared_relu": partial(_of_one, "reglu"),
    "gelu": partial(_of_one, "gelu"),
    "open_gate": _open_gate,
    "add": _add,
    "convolve": recurrent.convolve,
    "causal_conv_step": recurrent.causal_conv_step,
    "short_conv": recurrent.short_conv,
    "delta_gates": recurrent.delta_gates,
    "recurrent_gated_delta_step": recurrent.delta_step,
    "chunked_gated_delta_": recurrent.delta_chunks,
    "time_steps": recurrent.time_steps,
    "mamba1_step": partial(recurrent.mamba1, "mamba1_step"),
    "mamba1_run_": partial(recurrent.mamba1, "mamba1_run"),
    "mamba2_step": partial(recurrent.mamba2, "mamba2_step"),
    "mamba2_run_": partial(recurrent.mamba2, "mamba2_run"),
    "step_attention": _step_attention,
    "route": route,
    "weighted_sum": weighted_sum,
}
# They take `widened` after the library.
_ATTENTION_OF_MANY: dict[str, Native] = {
    "causal_attention": _causal_attention,
    "run_attention": _attend_many,
    "full_attention": _attend_many,
}
