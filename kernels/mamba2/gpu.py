"""The state space of Mamba-2 in Triton.

A program keeps some rows of one head's state in registers and writes them back in place, so many
tokens have the bits of single steps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows
from kernels.common.shapes import SpaceInputs

_ROWS = 8  # of a state in one program: a run is a chain of tokens, so more programs are faster


def mamba2_run_(given: SpaceInputs, state: Tensor) -> Tensor:
    """Also `mamba2_step`. Inputs, B and C may have gaps between tokens and heads; the state is
    contiguous."""
    inputs, b, c, steps, rate, skip = given
    assert state.is_contiguous() and dense_rows(inputs, b, c)
    num_heads, width, dim = state.shape
    outputs = torch.empty(inputs.shape, dtype=torch.float32, device=inputs.device)
    _space[(num_heads, triton.cdiv(width, _ROWS))](
        inputs, b, c, steps, rate, skip, state, outputs, inputs.shape[0], *inputs.stride()[:2],
        *b.stride()[:2], *c.stride()[:2], *steps.stride(),
        COPIES=num_heads // b.shape[1], WIDTH=width, DIM=dim, ROWS=_ROWS,
        BLOCK=triton.next_power_of_2(dim),
    )  # fmt: skip
    return outputs


@triton.jit(do_not_specialize=["num_tokens"])
def _space(
    inputs: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    steps: tl.tensor,
    rate: tl.tensor,
    skip: tl.tensor,
    state: tl.tensor,
    outputs: tl.tensor,
    num_tokens: int,
    input_stride: int,
    input_head_stride: int,
    b_stride: int,
    b_group_stride: int,
    c_stride: int,
    c_group_stride: int,
    step_stride: int,
    step_head_stride: int,
    COPIES: tl.constexpr,
    WIDTH: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Programs (head, rows of its state)."""
    head = tl.program_id(0)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    here = state + (head * WIDTH + row[:, None]) * DIM + column[None, :]
    inside = (row < WIDTH)[:, None] & (column < DIM)[None, :]
    matrix = tl.load(here, inside, 0.0)
    rate_of_head, skip_of_head = tl.load(rate + head), tl.load(skip + head)
    input_row = inputs + head * input_head_stride + row
    b_row = b + head // COPIES * b_group_stride + column
    c_row = c + head // COPIES * c_group_stride + column
    step_at = steps + head * step_head_stride
    output_row = outputs + head * WIDTH + row
    for token in range(num_tokens):
        at = tl.cast(token, tl.int64)
        given = tl.load(input_row + at * input_stride, row < WIDTH, 0.0).to(tl.float32)
        of_b = tl.load(b_row + at * b_stride, column < DIM, 0.0).to(tl.float32)
        of_c = tl.load(c_row + at * c_stride, column < DIM, 0.0).to(tl.float32)
        step = tl.load(step_at + at * step_stride)
        # A value decayed to e^-40 is lost next to anything: see `reference`.
        kept = tl.exp(tl.maximum(step * rate_of_head, -40.0))
        matrix = matrix * kept + (given * step)[:, None] * of_b[None, :]
        answer = tl.sum(matrix * of_c[None, :], 1) + skip_of_head * given
        tl.store(output_row + at * tl.num_programs(0) * WIDTH, answer, row < WIDTH)
    tl.store(here, matrix, inside)
