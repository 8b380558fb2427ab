"""Mamba: state spaces that tokens select. State: the last rows before the convolution, and the
states in float32.

Mamba-1 (arXiv:2312.00752, as in Jamba) has a state for each channel: inputs are convolved,
projected to time steps, B and C, each with a norm, and scanned; a gate multiplies the result.
Mamba-2 (arXiv:2405.21060) has a matrix for each head: one projection gives a gate, time steps, and
inputs, B and C under a causal convolution; then follow the state space and a gated norm, or the
gate alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, LayerMemory, LayerState, recurrent_spec
from core.layers.norm import RMSNorm
from core.layers.runs import Runs, convolution_taps, convolved_parts, in_runs, run_by_run
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import GroupNormShape, Mamba1Shape, Mamba2Shape, SpaceInputs

_NO_LIMITS = (0.0, math.inf)  # of time steps


class Mamba1:
    """Time steps have rank `rank`. Their projections and those to B and C are never quantised: they
    are a twentieth of the mixer, and time steps are exponents."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        shape: Mamba1Shape,
        rank: int,
        epsilon: float,
        *,
        conv_bias: bool = True,
        bias: bool = False,
        input_norm: InputNorm | None = None,
    ) -> None:
        channels, dim = shape.channels, shape.state_dim
        self.shape, self.rank = shape, rank
        # Channels last, as the scan reads them: see kernels/mamba1/reference.py.
        self.specs = (recurrent_spec(shape.taps, channels, (dim, channels), weights.dtype),)
        self._ops = weights.ops(shape, GroupNormShape(1, channels))
        parts = [("in_proj", 2 * channels)]
        self.projection = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        conv, small = weights.scope("conv1d"), torch.float32
        self.conv = convolution_taps(conv, channels, shape.taps)
        self.conv_bias = conv.tensor("bias", (channels,), small) if conv_bias else None
        exact = weights.exact()
        self.selection = Linear(exact, "x_proj", channels, rank + 2 * dim)
        self.step_norm = RMSNorm(weights.scope("dt_layernorm"), rank, epsilon)
        self.b_norm = RMSNorm(weights.scope("b_layernorm"), dim, epsilon)
        self.c_norm = RMSNorm(weights.scope("c_layernorm"), dim, epsilon)
        self.steps = Linear(exact, "dt_proj", rank, channels)
        # Small, and exponentiated: float32 whatever the model's type.
        self.step_bias = weights.tensor("dt_proj.bias", (channels,), small)
        rate = weights.tensor("A_log", (channels, dim), small)
        self.rate = -rate.T.contiguous().exp()
        self.skip = weights.tensor("D", (channels,), small)
        self.output = Linear(weights, "out_proj", channels, width, bias=bias)

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        if forward.memory.is_step:
            return self._step(hidden, forward.memory, slot)
        return in_runs(self._runs, hidden, forward.memory, slot)

    def _step(self, hidden: Tensor, memory: LayerMemory, slot: int) -> Tensor:
        ops = self._ops
        mixed, gate = self._projected(hidden, True)

        def convolve(state: LayerState, count: int) -> Tensor:
            taps = self.conv, self.conv_bias
            return ops.causal_conv_step(mixed[:count], state[0], *taps, hidden.dtype)

        inputs = memory.advance(slot, convolve)
        b, c, steps = self._selected(inputs, True)
        times = self._times(steps)

        def scan(state: LayerState, count: int) -> Tensor:
            selected = b[:count], c[:count], times[:count]
            given = inputs[:count], *selected, self.rate, self.skip
            return ops.mamba1_step(SpaceInputs(*given), state[1])

        read = memory.advance(slot, scan)
        return self.output(self._opened(read, gate), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        """Consecutive runs are convolved together, so later matrices are read once."""
        mixed, gate = self._projected(hidden, False)
        left = iter(runs)
        num_rows, (tail, state) = next(left)
        inputs = torch.empty_like(mixed)
        for part, columns in self._convolved(mixed, tail.clone()):
            inputs[part] = columns
        b, c, steps = self._selected(inputs, False)
        gated, start = torch.empty_like(inputs), 0
        while True:
            rows = slice(start, start + num_rows)
            _move_on(tail, mixed[rows])
            given = inputs[rows], b[rows], c[rows]
            self._scan(gated[rows], given, steps[rows], gate[rows], state)
            start += num_rows
            following = next(left, None)
            if following is None:
                return self.output(gated)
            num_rows, (tail, state) = following

    def _scan(
        self,
        result: Tensor,
        given: tuple[Tensor, Tensor, Tensor],
        steps: Tensor,
        gate: Tensor,
        state: Tensor,
    ) -> None:
        """Writes the gated output into `result`; updates `state`."""
        rows_per_part = self._ops.rows_per_part or result.shape[0]
        for start in range(0, result.shape[0], rows_per_part):
            part = slice(start, start + rows_per_part)
            inputs, b, c = (each[part] for each in given)
            times = self._times(steps[part])
            scanned = SpaceInputs(inputs, b, c, times, self.rate, self.skip)
            read = self._ops.mamba1_run_(scanned, state)
            result[part] = self._opened(read, gate[part])

    def _projected(self, hidden: Tensor, is_step: bool) -> tuple[Tensor, ...]:
        (projected,) = self.projection(hidden, is_step)
        return torch.split(projected, [self.shape.channels] * 2, dim=1)

    def _convolved(self, mixed: Tensor, tail: Tensor) -> Iterator[tuple[slice, Tensor]]:
        ops, dtype = self._ops, mixed.dtype
        return convolved_parts(ops, mixed, tail, self.conv, self.conv_bias, dtype)

    def _selected(self, inputs: Tensor, is_step: bool) -> tuple[Tensor, Tensor, Tensor]:
        """B and C [n, state_dim], and time steps [n, channels] before their bias."""
        dim = self.shape.state_dim
        found = self.selection(inputs, is_step)
        steps, b, c = torch.split(found, [self.rank, dim, dim], dim=1)
        return self.b_norm(b), self.c_norm(c), self.steps(self.step_norm(steps), is_step)

    def _times(self, steps: Tensor) -> Tensor:
        return self._ops.time_steps(steps, self.step_bias, 1.0, *_NO_LIMITS)

    def _opened(self, read: Tensor, gate: Tensor) -> Tensor:
        """The scan's output [n, channels] times silu of the gate, in its type."""
        return self._ops.gated_group_norm(read[:, None], None, gate, 0.0, 1.0, False)


def _move_on(tail: Tensor, rows: Tensor) -> None:
    """Replace `tail`, the rows before a run, by the run's last rows."""
    before = tail.shape[0]
    tail.copy_(torch.cat((tail, rows[-before:]))[-before:])


@dataclass(frozen=True, slots=True)
class Mamba2Form:
    """Each of `norm_groups` is normalised by itself (0: no norm), before or after the gate. Time
    steps are clamped to `limits`. `multipliers` are those of gate, inputs, B, C and time steps."""

    epsilon: float
    norm_groups: int
    gate_first: bool = True
    conv_bias: bool = True
    projection_bias: bool = False
    output_bias: bool = False
    limits: tuple[float, float] = _NO_LIMITS
    multipliers: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0)


class Mamba2:
    def __init__(
        self,
        weights: Weights,
        width: int,
        shape: Mamba2Shape,
        form: Mamba2Form,
        input_norm: InputNorm | None = None,
    ) -> None:
        self.shape, self.form, small = shape, form, torch.float32
        heads, inner, channels = shape.heads, shape.widths[0], sum(shape.widths)
        state = heads, shape.head_dim, shape.state_dim
        self.specs = (recurrent_spec(shape.taps, channels, state, weights.dtype),)
        self._groups = form.norm_groups or 1
        self._ops = weights.ops(shape, GroupNormShape(self._groups, inner // self._groups))
        self._widths = [inner, channels, heads]
        self.projection = JoinedLinear(
            weights,
            [("in_proj", sum(self._widths))],
            width,
            bias=form.projection_bias,
            input_norm=input_norm,
        )
        conv = weights.scope("conv1d")
        self.conv = _multiplied_taps(conv, shape, form.multipliers[1:4])
        self.conv_bias = conv.tensor("bias", (channels,), small) if form.conv_bias else None
        # Small, and exponentiated: float32 whatever the model's type.
        self.rate = -weights.tensor("A_log", (heads,), small).exp()
        self.skip = weights.tensor("D", (heads,), small)
        self.bias = weights.tensor("dt_bias", (heads,), small)
        self.scale = weights.tensor("norm.weight", (inner,), small) if form.norm_groups else None
        self.output = Linear(weights, "out_proj", inner, width, bias=form.output_bias)

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        if forward.memory.is_step:
            return self._step(hidden, forward.memory, slot)
        return in_runs(self._runs, hidden, forward.memory, slot)

    def _step(self, hidden: Tensor, memory: LayerMemory, slot: int) -> Tensor:
        gate, mixed, steps = self._projected(hidden, True)
        times = self._times(steps)

        def advance(state: LayerState, count: int) -> Tensor:
            tail, space = state
            taps = self.conv, self.conv_bias
            heads = self._heads(self._ops.causal_conv_step(mixed[:count], tail, *taps))
            of_tokens = *heads, times[:count]
            return self._ops.mamba2_step(SpaceInputs(*of_tokens, self.rate, self.skip), space)

        read = memory.advance(slot, advance)
        return self.output(self._opened(read, gate), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        gate, mixed, steps = self._projected(hidden, False)
        columns = mixed, gate, self._times(steps)
        return self.output(run_by_run(self._run, gate, columns, runs))

    def _run(
        self,
        result: Tensor,
        mixed: Tensor,
        gate: Tensor,
        times: Tensor,
        tail: Tensor,
        state: Tensor,
    ) -> None:
        """Writes the gated output into `result`; updates `tail` and `state`."""
        for part, columns in convolved_parts(self._ops, mixed, tail, self.conv, self.conv_bias):
            given = SpaceInputs(*self._heads(columns), times[part], self.rate, self.skip)
            read = self._ops.mamba2_run_(given, state)
            result[part] = self._opened(read, gate[part])

    def _projected(self, hidden: Tensor, is_step: bool) -> tuple[Tensor, ...]:
        (projected,) = self.projection(hidden, is_step)
        return torch.split(projected, self._widths, dim=1)

    def _heads(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = self.shape
        inputs, b, c = torch.split(columns, shape.widths, dim=1)
        by_group = (-1, shape.groups, shape.state_dim)
        return inputs.view(-1, shape.heads, shape.head_dim), b.view(by_group), c.view(by_group)

    def _times(self, steps: Tensor) -> Tensor:
        return self._ops.time_steps(steps, self.bias, self.form.multipliers[-1], *self.form.limits)

    def _opened(self, read: Tensor, gate: Tensor) -> Tensor:
        """[n, heads, head_dim] through gate and norm: [n, ..] in the gate's type."""
        groups, form = read.reshape(read.shape[0], self._groups, -1), self.form
        return self._ops.gated_group_norm(
            groups, self.scale, gate, form.epsilon, form.multipliers[0], form.gate_first
        )


def _multiplied_taps(
    weights: Weights, shape: Mamba2Shape, multipliers: tuple[float, ...]
) -> Tensor:
    """Taps [taps, channels] times the `multipliers` of inputs, B and C; in float32 the rounding is
    negligible."""
    each = zip(multipliers, shape.widths, strict=True)
    of_channels = torch.cat([torch.full((width,), number) for number, width in each])
    taps = convolution_taps(weights, sum(shape.widths), shape.taps)
    return taps * of_channels.to(taps.device)
