"""Mamba-2: a state space with one matrix per head.

Dao and Gu 2024 (arXiv:2405.21060): one projection to a gate, to inputs, B and C under a causal
convolution, and to time steps; the state space; a gated norm, or the gate alone. State: the last
rows before the convolution, and the matrices in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.runs import Runs, convolution_taps, convolved_parts, in_runs, run_by_run
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.scans import SpaceInputs
from kernels.common.shapes import GroupNormShape, Mamba2Shape


@dataclass(frozen=True, slots=True)
class Mamba2Form:
    """Differences between families.

    Each of `norm_groups` is normalised by itself (0: no norm), before or after the gate. Time steps
    are clamped to `limits`. `multipliers` are those of gate, inputs, B, C and time steps.
    """

    epsilon: float
    norm_groups: int
    gate_first: bool = True
    conv_bias: bool = True
    projection_bias: bool = False
    output_bias: bool = False
    limits: tuple[float, float] = (0.0, math.inf)
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
        self.specs = (_spec(shape, weights.dtype),)
        heads, inner, channels = shape.heads, shape.widths[0], sum(shape.widths)
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


def _spec(shape: Mamba2Shape, dtype: torch.dtype) -> RecurrentSpec:
    tail = StateTensor((shape.taps - 1, sum(shape.widths)), dtype)
    state = (shape.heads, shape.head_dim, shape.state_dim)
    return RecurrentSpec((tail, StateTensor(state, torch.float32)))
