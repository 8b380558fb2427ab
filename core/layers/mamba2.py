"""Mamba-2: a state space that keeps one matrix per head instead of all keys.

Dao and Gu 2024 (arXiv:2405.21060), as hybrids use it: one projection to a gate, to inputs, B and C
under a causal convolution, and to time steps; the state space; a gated norm, or the gate alone. Its
memory is the last rows before the convolution, and the matrices in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.runs import Runs, convolved_parts, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.scans import SpaceInputs
from kernels.common.shapes import GroupNormShape, Mamba2Shape


@dataclass(frozen=True, slots=True)
class Mamba2Sizes:
    """Heads of `head_dim` inputs and a state of `state_dim` each, convolution over `kernel`.

    B and C are there once for each of `groups` of heads.
    """

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state_dim: int
    kernel: int

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    @property
    def conv_width(self) -> int:
        return sum(self.shape.widths)

    @property
    def shape(self) -> Mamba2Shape:
        """As kernels want to know it."""
        return Mamba2Shape(self.heads, self.head_dim, self.groups, self.state_dim, self.kernel)


@dataclass(frozen=True, slots=True)
class Mamba2Form:
    """What families do differently.

    `norm_groups` have a norm each, there is none if it is 0, and the gate multiplies before the
    norm or after it. Time steps are kept within `limits`. `multipliers` are of the projection's
    gate, inputs, B, C and time steps.
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
    """One mixer; long runs go through it in blocks that hand their state on.

    `input_norm` as in `JoinedLinear`.
    """

    def __init__(
        self,
        weights: Weights,
        sizes: Mamba2Sizes,
        form: Mamba2Form,
        input_norm: InputNorm | None = None,
    ) -> None:
        self.sizes, self.form = sizes, form
        self.spec = _spec(sizes, weights.dtype)
        width, heads, conv_width = sizes.width, sizes.heads, sizes.conv_width
        self._groups = form.norm_groups or 1
        norm_shape = GroupNormShape(self._groups, width // self._groups)
        self._ops = weights.ops(sizes.shape, norm_shape)
        self._widths = [width, conv_width, heads]
        self.projection = JoinedLinear(
            weights,
            [("in_proj", sum(self._widths))],
            sizes.hidden,
            bias=form.projection_bias,
            input_norm=input_norm,
        )
        self.conv = _convolution(weights, sizes, form.multipliers)
        self.conv_bias = (
            weights.tensor("conv1d.bias", (conv_width,), torch.float32) if form.conv_bias else None
        )
        # Small, and exponentiated: float32 whatever the model's type.
        self.rate = -weights.tensor("A_log", (heads,), torch.float32).exp()
        self.skip = weights.tensor("D", (heads,), torch.float32)
        self.bias = weights.tensor("dt_bias", (heads,), torch.float32)
        self.scale = (
            weights.tensor("norm.weight", (width,), torch.float32) if form.norm_groups else None
        )
        self.output = Linear(weights, "out_proj", width, sizes.hidden, bias=form.output_bias)

    def __call__(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """`hidden` [n, hidden_size], normalised -> [n, hidden_size]."""
        if memory.is_step:
            return self._step(hidden, memory, layer)
        return in_runs(self._runs, hidden, memory, layer)

    def _step(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """The output [n, hidden_size] of tokens one after the other."""
        gate, mixed, steps = self._projected(hidden, True)
        times = self._times(steps)

        def advance(state: LayerState, count: int) -> Tensor:
            tail, space = state
            taps = self.conv, self.conv_bias
            heads = self._heads(self._ops.causal_conv_step(mixed[:count], tail, *taps))
            of_tokens = *heads, times[:count]
            return self._ops.mamba2_step(SpaceInputs(*of_tokens, self.rate, self.skip), space)

        read = memory.advance(layer, advance)
        return self.output(self._opened(read, gate), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        """The output [n, hidden_size] of `runs`."""
        gate, mixed, steps = self._projected(hidden, False)
        times, gated, start = self._times(steps), torch.empty_like(gate), 0
        for num_rows, state in runs:
            rows = slice(start, start + num_rows)
            self._run(gated[rows], mixed[rows], gate[rows], times[rows], *state)
            start += num_rows
        return self.output(gated)

    def _run(
        self,
        result: Tensor,
        mixed: Tensor,
        gate: Tensor,
        times: Tensor,
        tail: Tensor,
        state: Tensor,
    ) -> None:
        """What a run reads, through its gate into `result`; moves `tail` and `state` on."""
        for part, columns in convolved_parts(self._ops, mixed, tail, self.conv, self.conv_bias):
            given = SpaceInputs(*self._heads(columns), times[part], self.rate, self.skip)
            read = self._ops.mamba2_run_(given, state)
            result[part] = self._opened(read, gate[part])

    def _projected(self, hidden: Tensor, is_step: bool) -> tuple[Tensor, ...]:
        """Views [n, ..] of the gate, of what is convolved, and of the time steps."""
        (projected,) = self.projection(hidden, is_step)
        return torch.split(projected, self._widths, dim=1)

    def _heads(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split convolved columns [n, channels] into inputs by head, B and C by group."""
        sizes = self.sizes
        inputs, b, c = torch.split(columns, sizes.shape.widths, dim=1)
        by_group = (-1, sizes.groups, sizes.state_dim)
        return inputs.view(-1, sizes.heads, sizes.head_dim), b.view(by_group), c.view(by_group)

    def _times(self, steps: Tensor) -> Tensor:
        """The time steps [n, heads] float32."""
        return self._ops.time_steps(steps, self.bias, self.form.multipliers[-1], *self.form.limits)

    def _opened(self, read: Tensor, gate: Tensor) -> Tensor:
        """What was read [n, heads, head_dim] through gate and norm: [n, width] as `gate`."""
        groups, form = read.reshape(read.shape[0], self._groups, -1), self.form
        return self._ops.gated_group_norm(
            groups, self.scale, gate, form.epsilon, form.multipliers[0], form.gate_first
        )


def _convolution(weights: Weights, sizes: Mamba2Sizes, multipliers: tuple[float, ...]) -> Tensor:
    """The taps [kernel, channels]. They take the multipliers of their inputs, which are the same
    for all of a channel's rows; in float32 that rounds nothing that shows."""
    shape = (sizes.conv_width, 1, sizes.kernel)
    taps = weights.tensor("conv1d.weight", shape, torch.float32).squeeze(1).T
    each = zip(multipliers[1:4], sizes.shape.widths, strict=True)
    of_channels = torch.cat([torch.full((width,), number) for number, width in each])
    return (taps * of_channels.to(taps.device)).contiguous()


def _spec(sizes: Mamba2Sizes, dtype: torch.dtype) -> RecurrentSpec:
    tail = StateTensor((sizes.kernel - 1, sizes.conv_width), dtype)
    state = (sizes.heads, sizes.head_dim, sizes.state_dim)
    return RecurrentSpec((tail, StateTensor(state, torch.float32)))
