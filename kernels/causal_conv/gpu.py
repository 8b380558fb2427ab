"""The causal convolutions in Triton: many tokens after a carried tail, or one step.

A program takes some tokens of some channels; in a step it also moves their tail.
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
    """Rows may have gaps between them."""
    before, rows = weight.shape[0] - 1, _dense(rows)
    return _launch(rows[before:], rows[:before], None, weight, bias, dtype)


def causal_conv_step(
    inputs: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Up to 16 tokens."""
    if inputs.shape[0] > _TOKENS:
        # More tokens are more programs, and one could read the tail that another has written.
        raise ValueError(f"a step takes up to {_TOKENS} tokens, not {inputs.shape[0]}")
    return _launch(_dense(inputs), tail, tail, weight, bias, dtype)


def short_conv(projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Rows of `projected` and `tail` may have gaps between them."""
    # One program reads a channel's tail before it writes there; of several another may be later.
    in_place = projected.shape[0] <= _TOKENS
    after = tail if in_place else torch.empty_like(tail)
    dtype = projected.dtype
    outputs = _launch(_dense(projected), tail, after, weight, bias, dtype, gated=True)
    if not in_place:
        tail.copy_(after)
    return outputs


def _dense(rows: Tensor) -> Tensor:
    return rows if rows.shape[1] <= 1 or rows.stride(1) == 1 else rows.contiguous()


def _launch(
    inputs: Tensor,
    tail: Tensor,
    after: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    gated: bool = False,
) -> Tensor:
    """`after` receives the tail behind the inputs."""
    num_tokens = inputs.shape[0]
    taps, channels = weight.shape
    outputs = torch.empty(num_tokens, channels, dtype=dtype, device=inputs.device)
    moved = tail if after is None else after
    grid = (max(1, triton.cdiv(num_tokens, _TOKENS)), triton.cdiv(channels, _CHANNELS))
    _causal_conv[grid](
        inputs, tail, weight, weight if bias is None else bias, outputs, moved, num_tokens,
        channels, inputs.stride(0), tail.stride(0), moved.stride(0),
        TAPS=taps, TAIL=triton.next_power_of_2(max(1, taps - 1)), TOKENS=_TOKENS,
        CHANNELS=_CHANNELS, BIAS=bias is not None, GATED=gated, MOVES=after is not None,
    )  # fmt: skip
    return outputs


@triton.jit(do_not_specialize=["num_tokens"])
def _causal_conv(
    inputs: tl.tensor,
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
    GATED: tl.constexpr,
    MOVES: tl.constexpr,
) -> None:
    """Row j of tail and inputs is tail[j] for j < TAPS - 1, then input j - (TAPS - 1)."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    valid = (token < num_tokens) & (channel < channels)
    wide = token.to(tl.int64)
    total = tl.zeros([TOKENS, CHANNELS], tl.float32)
    for tap in tl.static_range(TAPS):
        place = token + (tap - (TAPS - 1))
        value = _row(
            inputs, tail, place, channel, valid, channels, row_stride, tail_stride, TAPS, GATED
        ).to(tl.float32)
        total += value * tl.load(weight + tap * channels + channel, channel < channels, 0.0)
    if BIAS:
        total += tl.load(bias + channel, channel < channels, 0.0)
    if GATED:
        gate = tl.load(inputs + wide * row_stride + channels + channel, valid, 0.0)
        total *= gate.to(tl.float32)
    else:
        total *= tl.sigmoid(total)
    tl.store(outputs + wide * channels + channel, total.to(outputs.dtype.element_ty), valid)

    if MOVES:
        column = tl.arange(0, TAIL)[:, None]
        last = num_tokens + column - (TAPS - 1)
        kept = (column < TAPS - 1) & (channel < channels) & (tl.program_id(0) == 0)
        moved = _row(
            inputs, tail, last, channel, kept, channels, row_stride, tail_stride, TAPS, GATED
        )
        # In a step the tail is written where it was read: not before every thread has read.
        tl.debug_barrier()
        tl.store(after + column * after_stride + channel, moved, kept)


@triton.jit
def _row(
    inputs: tl.tensor,
    tail: tl.tensor,
    place: tl.tensor,
    channel: tl.tensor,
    valid: tl.tensor,
    channels: int,
    row_stride: int,
    tail_stride: int,
    TAPS: tl.constexpr,
    GATED: tl.constexpr,
) -> tl.tensor:
    """The input at `place`, B x if GATED; or the tail if `place` is negative."""
    inside = valid & (place >= 0)
    there = inputs + place.to(tl.int64) * row_stride + channel
    given = tl.load(there, inside, 0.0)
    if GATED:
        other = tl.load(there + 2 * channels, inside, 0.0).to(tl.float32)
        given = (given.to(tl.float32) * other).to(tail.dtype.element_ty)
    carried = tl.load(tail + (place + (TAPS - 1)) * tail_stride + channel, valid & (place < 0), 0.0)
    return tl.where(place >= 0, given, carried)
