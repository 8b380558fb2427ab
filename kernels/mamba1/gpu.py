"""The selective scan of Mamba-1 in Triton.

A program keeps the states of some channels in registers and writes them back in place, so many
tokens have the bits of single steps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows
from kernels.common.shapes import SpaceInputs

_CHANNELS = 32  # of one program: a run is a chain of tokens, so more programs are faster


def mamba1_run_(given: SpaceInputs, state: Tensor) -> Tensor:
    """Also `mamba1_step`. Inputs, B, C and steps may have gaps between tokens; rates and state are
    contiguous."""
    inputs, b, c, steps, rate, skip = given
    assert state.is_contiguous() and rate.is_contiguous() and dense_rows(inputs, b, c, steps)
    dim, channels = state.shape
    outputs = torch.empty(inputs.shape, dtype=torch.float32, device=inputs.device)
    _scan[(triton.cdiv(channels, _CHANNELS),)](
        inputs, b, c, steps, rate, skip, state, outputs, inputs.shape[0], channels,
        inputs.stride(0), b.stride(0), c.stride(0), steps.stride(0),
        DIM=dim, BLOCK=triton.next_power_of_2(dim), CHANNELS=_CHANNELS, num_warps=1,
    )  # fmt: skip
    return outputs


@triton.jit(do_not_specialize=["num_tokens"])
def _scan(
    inputs: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    steps: tl.tensor,
    rate: tl.tensor,
    skip: tl.tensor,
    state: tl.tensor,
    outputs: tl.tensor,
    num_tokens: int,
    channels: int,
    input_stride: int,
    b_stride: int,
    c_stride: int,
    step_stride: int,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    row = tl.arange(0, BLOCK)
    here = row[:, None] * channels + channel[None, :]
    valid = channel < channels
    inside = (row < DIM)[:, None] & valid[None, :]
    numbers = tl.load(state + here, inside, 0.0)
    rates = tl.load(rate + here, inside, 0.0)
    of_skip = tl.load(skip + channel, valid, 0.0)
    for token in range(num_tokens):
        at = tl.cast(token, tl.int64)
        given = tl.load(inputs + at * input_stride + channel, valid, 0.0).to(tl.float32)
        step = tl.load(steps + at * step_stride + channel, valid, 0.0)
        of_b = tl.load(b + at * b_stride + row, row < DIM, 0.0).to(tl.float32)
        of_c = tl.load(c + at * c_stride + row, row < DIM, 0.0).to(tl.float32)
        # A value decayed to e^-40 is lost next to anything: see `reference`.
        kept = tl.exp(tl.maximum(step[None, :] * rates, -40.0))
        numbers = numbers * kept + of_b[:, None] * (given * step)[None, :]
        answer = tl.sum(numbers * of_c[:, None], 0) + of_skip * given
        tl.store(outputs + at * channels + channel, answer, valid)
    tl.store(state + here, numbers, inside)
