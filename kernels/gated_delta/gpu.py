"""The gated delta rule in Triton.

A step is computed token by token, with a stripe of one head's state in registers. A prompt takes
three kernels after the equations in `reference`: (I + A)^-1 of all chunks at once, the state chunk
by chunk, all outputs at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows
from kernels.common.shapes import DeltaInputs
from kernels.gated_delta.gpu_chunked import (
    EPSILON,
    SLICE,
    prepare_chunks,
    read_chunks,
    scan_chunks,
)
from kernels.gated_delta.reference import CHANNEL_CHUNK, CHUNK

_STEP_COLUMNS = 16  # of the state in one program: 64 bytes of a row
_SCAN_COLUMNS = 32  # of the state in one program of the scan


def delta_gates(
    step: Tensor, beta: Tensor, rate: Tensor, bias: Tensor, multiplier: float = 1.0
) -> tuple[Tensor, Tensor]:
    """`step` and `beta` may have gaps between tokens."""
    assert dense_rows(step, beta)
    decay, opened = (torch.empty(each.shape, device=step.device) for each in (step, beta))
    (num_tokens, num_decays), num_heads = step.shape, beta.shape[1]
    block = triton.next_power_of_2(num_decays)
    if num_tokens:
        _gates[(num_tokens,)](
            step, beta, rate, bias, decay, opened, num_decays, num_heads, step.stride(0),
            beta.stride(0), float(multiplier), DECAYS=block,
            HEADS=triton.next_power_of_2(num_heads), num_warps=max(1, min(8, block // 512)),
        )  # fmt: skip
    return decay, opened


def recurrent_gated_delta_step(given: DeltaInputs, state: Tensor) -> Tensor:
    """Queries, keys and values may have gaps between tokens and heads; the state is contiguous."""
    queries, keys, values, decay, beta = given
    assert state.is_contiguous() and dense_rows(queries, keys, values)
    num_heads, key_dim, value_dim = state.shape
    outputs = torch.empty(values.shape, dtype=torch.float32, device=values.device)
    _step[(num_heads, triton.cdiv(value_dim, _STEP_COLUMNS))](
        queries, keys, values, decay, beta, state, outputs, values.shape[0],
        *queries.stride()[:2], *keys.stride()[:2], *values.stride()[:2], *decay.stride()[:2],
        *beta.stride(), key_dim**-0.5, EPSILON, BY_CHANNEL=decay.dim() == 3,
        COPIES=num_heads // keys.shape[1], KEY_DIM=key_dim, VALUE_DIM=value_dim,
        BLOCK=triton.next_power_of_2(key_dim), COLUMNS=_STEP_COLUMNS,
    )  # fmt: skip
    return outputs


def chunked_gated_delta_(given: DeltaInputs, state: Tensor) -> Tensor:
    """The state must be contiguous. Each program of the scan reads its stripe before it writes
    it."""
    queries, keys, values, decay, beta = given
    assert state.is_contiguous() and dense_rows(queries, keys, values)
    num_tokens, num_heads, value_dim = values.shape
    key_dim, device, by_channel = keys.shape[2], values.device, decay.dim() == 3
    chunk = CHANNEL_CHUNK if by_channel else CHUNK
    chunks = triton.cdiv(num_tokens, chunk)

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    reads, deltas = empty(num_tokens, num_heads, key_dim), empty(num_tokens, num_heads, value_dim)
    before = empty(chunks, num_heads, key_dim, value_dim)
    outputs = empty(num_tokens, num_heads, value_dim)
    strides = *keys.stride()[:2], *decay.stride()[:2]
    # By channel, a slice is multiplied by as many decays as there are pairs of tokens.
    width = 16 if by_channel else SLICE
    shape = {
        "COPIES": num_heads // keys.shape[1],
        "KEY_DIM": key_dim,
        "VALUE_DIM": value_dim,
        "CHUNK": chunk,
        "BY_CHANNEL": by_channel,
        "BLOCK": max(16, triton.next_power_of_2(key_dim)),
    }
    common = num_tokens, num_heads, *strides
    prepare_chunks[(chunks, num_heads)](
        keys, values, decay, beta, reads, deltas, *common, *values.stride()[:2], *beta.stride(),
        EPSILON, **shape, SLICE=width, num_warps=4, num_stages=1,
    )  # fmt: skip
    scan_chunks[(num_heads, triton.cdiv(value_dim, _SCAN_COLUMNS))](
        keys, decay, reads, deltas, state, before, *common, EPSILON, **shape,
        COLUMNS=_SCAN_COLUMNS, num_warps=4, num_stages=1,
    )  # fmt: skip
    read_chunks[(chunks, num_heads)](
        queries, keys, decay, deltas, before, outputs, *common, *queries.stride()[:2],
        key_dim**-0.5, EPSILON, **shape, SLICE=width, num_warps=4, num_stages=1,
    )  # fmt: skip
    return outputs


@triton.jit
def _gates(
    step: tl.tensor,
    beta: tl.tensor,
    rate: tl.tensor,
    bias: tl.tensor,
    decay: tl.tensor,
    opened: tl.tensor,
    num_decays: int,
    num_heads: int,
    step_stride: int,
    beta_stride: int,
    multiplier: float,
    DECAYS: tl.constexpr,
    HEADS: tl.constexpr,
) -> None:
    token, place, head = tl.program_id(0).to(tl.int64), tl.arange(0, DECAYS), tl.arange(0, HEADS)
    valid = place < num_decays
    time = tl.load(step + token * step_stride + place, valid, 0.0).to(tl.float32)
    time += tl.load(bias + place, valid, 0.0)
    time = tl.where(time > 20, time, tl.log(1 + tl.exp(tl.minimum(time, 20.0))))  # as torch does
    time *= tl.load(rate + place, valid, 0.0)
    tl.store(decay + token * num_decays + place, time, valid)
    valid = head < num_heads
    number = tl.load(beta + token * beta_stride + head, valid, 0.0).to(tl.float32)
    tl.store(opened + token * num_heads + head, multiplier * tl.sigmoid(number), valid)


@triton.jit(do_not_specialize=["num_tokens"])
def _step(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    decay: tl.tensor,
    beta: tl.tensor,
    state: tl.tensor,
    outputs: tl.tensor,
    num_tokens: int,
    query_stride: int,
    query_head_stride: int,
    key_stride: int,
    key_head_stride: int,
    value_stride: int,
    value_head_stride: int,
    decay_stride: int,
    decay_head_stride: int,
    beta_stride: int,
    beta_head_stride: int,
    query_scale: float,
    epsilon: float,
    COPIES: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
) -> None:
    """Programs (value head, columns of its state)."""
    head = tl.program_id(0)
    row = tl.arange(0, BLOCK)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = (row < KEY_DIM)[:, None] & (column < VALUE_DIM)[None, :]
    here = state + (head * KEY_DIM + row[:, None]) * VALUE_DIM + column[None, :]
    matrix = tl.load(here, valid, 0.0)
    query_head = queries + head // COPIES * query_head_stride + row
    key_head = keys + head // COPIES * key_head_stride + row
    for token in range(num_tokens):
        query = tl.load(query_head + token * query_stride, row < KEY_DIM, 0.0).to(tl.float32)
        key = tl.load(key_head + token * key_stride, row < KEY_DIM, 0.0).to(tl.float32)
        query *= tl.rsqrt(tl.sum(query * query, 0) + epsilon) * query_scale
        key *= tl.rsqrt(tl.sum(key * key, 0) + epsilon)
        value = tl.load(
            values + token * value_stride + head * value_head_stride + column,
            column < VALUE_DIM,
            0.0,
        ).to(tl.float32)
        step = decay + token * decay_stride + head * decay_head_stride
        if BY_CHANNEL:
            matrix *= tl.exp(tl.load(step + row, row < KEY_DIM, 0.0).to(tl.float32))[:, None]
        else:
            matrix *= tl.exp(tl.load(step)).to(tl.float32)
        rate = tl.load(beta + token * beta_stride + head * beta_head_stride)
        delta = (value - tl.sum(matrix * key[:, None], 0)) * rate.to(tl.float32)
        matrix += key[:, None] * delta[None, :]
        answer = tl.sum(matrix * query[:, None], 0)
        place = (token * tl.num_programs(0) + head) * VALUE_DIM + column
        tl.store(outputs + place, answer, column < VALUE_DIM)
    tl.store(here, matrix, valid)
