"""Mamba-1: a selective state space for each channel.

Gu and Dao 2023 (arXiv:2312.00752), as in Jamba: one projection to inputs and a gate; a causal
convolution; small projections to time steps, B and C, each with a norm; the selective scan; the
gate. State: the last rows before the convolution, and the channels' states in float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.norm import RMSNorm
from core.layers.runs import Runs, convolution_taps, convolved_parts, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.scans import SpaceInputs
from kernels.common.shapes import GroupNormShape, Mamba1Shape

_NO_LIMITS = (0.0, float("inf"))  # of time steps


class Mamba1:
    """Time steps have rank `rank`.

    The projections to time steps, B and C are never quantised: they are a twentieth of the mixer,
    and time steps are exponents.
    """

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
        self.specs = (_spec(shape, weights.dtype),)
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
        """Consecutive runs are convolved together, so the matrices that follow are read once."""
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


def _spec(shape: Mamba1Shape, dtype: torch.dtype) -> RecurrentSpec:
    tail = StateTensor((shape.taps - 1, shape.channels), dtype)
    # Channels last, as the scan reads them: see kernels/mamba1/reference.py.
    state = StateTensor((shape.state_dim, shape.channels), torch.float32)
    return RecurrentSpec((tail, state))
