"""The causal convolutions in Triton: many tokens after a carried tail, or one step.

A program takes some tokens of some channels and reads each input once per tap. A step is one
program for its channels, which also moves the tail.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TOKENS, _CHANNELS = 16, 128  # of one program


def convolve(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Like `reference.convolve`; rows may have gaps between them."""
    before = weight.shape[0] - 1
    return _launch(rows[before:], rows[:before], weight, bias, dtype, moves=False)


def causal_conv_step(
    inputs: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Like `reference.causal_conv_step`, for up to 16 tokens."""
    if inputs.shape[0] > _TOKENS:
        # More tokens are more programs, and one could read the tail that another has written.
        raise ValueError(f"a step takes up to {_TOKENS} tokens, not {inputs.shape[0]}")
    return _launch(inputs, tail, weight, bias, dtype, moves=True)


def _launch(
    inputs: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    *,
    moves: bool,
) -> Tensor:
    num_tokens, channels = inputs.shape
    taps = weight.shape[0]
    if channels > 1 and inputs.stride(1) != 1:
        inputs = inputs.contiguous()
    outputs = torch.empty(num_tokens, channels, dtype=dtype, device=inputs.device)
    grid = (max(1, triton.cdiv(num_tokens, _TOKENS)), triton.cdiv(channels, _CHANNELS))
    _causal_conv[grid](
        inputs,
        tail,
        weight,
        weight if bias is None else bias,
        outputs,
        num_tokens,
        channels,
        inputs.stride(0),
        *tail.stride(),
        TAPS=taps,
        TAIL=triton.next_power_of_2(max(1, taps - 1)),
        TOKENS=_TOKENS,
        CHANNELS=_CHANNELS,
        BIAS=bias is not None,
        MOVES=moves,
    )
    return outputs


@triton.jit(do_not_specialize=["num_tokens"])
def _causal_conv(
    inputs: tl.tensor,
    tail: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    outputs: tl.tensor,
    num_tokens: int,
    channels: int,
    row_stride: int,
    tail_row_stride: int,
    tail_stride: int,
    TAPS: tl.constexpr,
    TAIL: tl.constexpr,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BIAS: tl.constexpr,
    MOVES: tl.constexpr,
) -> None:
    """Column j of tail and inputs is tail[j] for j < TAPS - 1, then inputs[j - (TAPS - 1)]."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    valid = (token < num_tokens) & (channel < channels)
    total = tl.zeros([TOKENS, CHANNELS], tl.float32)
    for tap in tl.static_range(TAPS):
        place = token + (tap - (TAPS - 1))
        value = _columns(
            inputs, tail, place, channel, valid, row_stride, tail_row_stride, tail_stride, TAPS
        ).to(tl.float32)
        total += value * tl.load(weight + tap * channels + channel, channel < channels, 0.0)
    if BIAS:
        total += tl.load(bias + channel, channel < channels, 0.0)
    tl.store(outputs + token.to(tl.int64) * channels + channel, total * tl.sigmoid(total), valid)

    if MOVES:
        _move_tail(
            inputs, tail, num_tokens, channels, row_stride, tail_row_stride, tail_stride,
            TAPS, TAIL, CHANNELS,
        )  # fmt: skip


@triton.jit
def _columns(
    inputs: tl.tensor,
    tail: tl.tensor,
    place: tl.tensor,
    channel: tl.tensor,
    valid: tl.tensor,
    row_stride: int,
    tail_row_stride: int,
    tail_stride: int,
    TAPS: tl.constexpr,
) -> tl.tensor:
    """The inputs at `place`, or the tail if `place` is negative; `channel` broadcasts."""
    given = tl.load(inputs + place.to(tl.int64) * row_stride + channel, valid & (place >= 0), 0.0)
    carried = tl.load(
        tail + (place + (TAPS - 1)) * tail_row_stride + channel * tail_stride,
        valid & (place < 0),
        0.0,
    )
    return tl.where(place >= 0, given, carried)


@triton.jit
def _move_tail(
    inputs: tl.tensor,
    tail: tl.tensor,
    num_tokens: int,
    channels: int,
    row_stride: int,
    tail_row_stride: int,
    tail_stride: int,
    TAPS: tl.constexpr,
    TAIL: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    """Store the last TAPS - 1 columns of tail and inputs, for the channels of this program."""
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[:, None]
    column = tl.arange(0, TAIL)[None, :]
    place = num_tokens + column - (TAPS - 1)
    valid = (channel < channels) & (column < TAPS - 1)
    moved = _columns(
        inputs, tail, place, channel, valid, row_stride, tail_row_stride, tail_stride, TAPS
    )
    # The tail is written where it was read: not before every thread has read.
    tl.debug_barrier()
    there = tail + column * tail_row_stride + channel * tail_stride
    tl.store(there, moved, valid)


def short_conv(projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Like `reference.short_conv`; rows of `projected` and `tail` may have gaps between them."""
    num_tokens = projected.shape[0]
    taps, channels = weight.shape
    if projected.stride(1) != 1:
        projected = projected.contiguous()
    outputs = torch.empty(num_tokens, channels, dtype=projected.dtype, device=projected.device)
    # One program reads a channel's tail before it writes there; of several another may be later.
    in_place = num_tokens <= _TOKENS
    after = tail if in_place else torch.empty_like(tail)
    grid = (triton.cdiv(num_tokens, _TOKENS), triton.cdiv(channels, _CHANNELS))
    _short_conv[grid](
        projected,
        tail,
        weight,
        weight if bias is None else bias,
        outputs,
        after,
        num_tokens,
        channels,
        projected.stride(0),
        tail.stride(0),
        after.stride(0),
        TAPS=taps,
        TAIL=triton.next_power_of_2(max(1, taps - 1)),
        TOKENS=_TOKENS,
        CHANNELS=_CHANNELS,
        BIAS=bias is not None,
    )
    if not in_place:
        tail.copy_(after)
    return outputs


@triton.jit(do_not_specialize=["num_tokens"])
def _short_conv(
    projected: tl.tensor,
    tail: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    outputs: tl.tensor,
    after: tl.tensor,
    num_tokens: int,
    channels: int,
    row_stride: int,
    tail_stride: int,
    after_stride: int,
    TAPS: tl.constexpr,
    TAIL: tl.constexpr,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BIAS: tl.constexpr,
) -> None:
    """Row j of tail and inputs is tail[j] for j < TAPS - 1, then B x of token j - (TAPS - 1)."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    valid = (token < num_tokens) & (channel < channels)
    total = tl.zeros([TOKENS, CHANNELS], tl.float32)
    for tap in tl.static_range(TAPS):
        place = token + (tap - (TAPS - 1))
        row = _row(projected, tail, place, channel, valid, channels, row_stride, tail_stride, TAPS)
        taps = tl.load(weight + tap * channels + channel, channel < channels, 0.0)
        total += row.to(tl.float32) * taps
    if BIAS:
        total += tl.load(bias + channel, channel < channels, 0.0)
    gate = tl.load(projected + token.to(tl.int64) * row_stride + channels + channel, valid, 0.0)
    product = gate.to(tl.float32) * total
    there = outputs + token.to(tl.int64) * channels + channel
    tl.store(there, product.to(outputs.dtype.element_ty), valid)

    if tl.program_id(0) == 0:
        column = tl.arange(0, TAIL)[:, None]
        last, kept = num_tokens + column - (TAPS - 1), (column < TAPS - 1) & (channel < channels)
        moved = _row(projected, tail, last, channel, kept, channels, row_stride, tail_stride, TAPS)
        # In a step the tail is written where it was read: not before every thread has read.
        tl.debug_barrier()
        tl.store(after + column * after_stride + channel, moved, kept)


@triton.jit
def _row(
    projected: tl.tensor,
    tail: tl.tensor,
    place: tl.tensor,
    channel: tl.tensor,
    valid: tl.tensor,
    channels: int,
    row_stride: int,
    tail_stride: int,
    TAPS: tl.constexpr,
) -> tl.tensor:
    """B x at `place`, or the tail if `place` is negative."""
    inside = valid & (place >= 0)
    there = projected + place.to(tl.int64) * row_stride + channel
    before = tl.load(there, inside, 0.0).to(tl.float32)
    inputs = tl.load(there + 2 * channels, inside, 0.0).to(tl.float32)
    carried = tl.load(tail + (place + (TAPS - 1)) * tail_stride + channel, valid & (place < 0), 0.0)
    return tl.where(place >= 0, (before * inputs).to(tail.dtype.element_ty), carried)
