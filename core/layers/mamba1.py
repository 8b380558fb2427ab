"""Mamba-1: a state space of its own for every channel, which forgets by what it reads.

Gu and Dao 2023 (arXiv:2312.00752), as Jamba has it: one projection to inputs and a gate; a causal
convolution; small projections of what that gives to time steps, B and C, each behind a norm; the
selective scan; the gate. Its memory is the last rows before the convolution, and the states of all
channels in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.norm import RMSNorm
from core.layers.runs import Runs, convolved_parts, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.scans import SpaceInputs
from kernels.common.shapes import GroupNormShape, Mamba1Shape

_NO_LIMITS = (0.0, float("inf"))  # of time steps


@dataclass(frozen=True, slots=True)
class Mamba1Sizes:
    """`width` channels of `state_dim` numbers, time steps of rank `rank`, convolution over
    `kernel`."""

    hidden: int
    width: int
    state_dim: int
    rank: int
    kernel: int


class Mamba1:
    """One mixer; long runs go through it in blocks that hand their state on.

    What makes time steps, B and C is never quantised: it is a twentieth of the mixer, and time
    steps are exponents. `input_norm` as in `JoinedLinear`.
    """

    def __init__(
        self,
        weights: Weights,
        sizes: Mamba1Sizes,
        epsilon: float,
        *,
        conv_bias: bool = True,
        bias: bool = False,
        input_norm: InputNorm | None = None,
    ) -> None:
        """`bias`: the projections to inputs and gate, and back, have one."""
        width, dim, rank = sizes.width, sizes.state_dim, sizes.rank
        self.sizes = sizes
        self.spec = _spec(sizes, weights.dtype)
        shape = Mamba1Shape(width, dim, sizes.kernel)
        self._ops = weights.ops(shape, GroupNormShape(1, width))
        self.projection = JoinedLinear(
            weights, [("in_proj", 2 * width)], sizes.hidden, bias=bias, input_norm=input_norm
        )
        taps = weights.tensor("conv1d.weight", (width, 1, sizes.kernel), torch.float32)
        self.conv = taps.squeeze(1).T.contiguous()
        self.conv_bias = (
            weights.tensor("conv1d.bias", (width,), torch.float32) if conv_bias else None
        )
        exact = weights.exact()
        self.selection = Linear(exact, "x_proj", width, rank + 2 * dim)
        self.step_norm = RMSNorm(weights.scope("dt_layernorm"), rank, epsilon)
        self.b_norm = RMSNorm(weights.scope("b_layernorm"), dim, epsilon)
        self.c_norm = RMSNorm(weights.scope("c_layernorm"), dim, epsilon)
        self.steps = Linear(exact, "dt_proj", rank, width)
        # Small, and exponentiated: float32 whatever the model's type.
        self.step_bias = weights.tensor("dt_proj.bias", (width,), torch.float32)
        rate = weights.tensor("A_log", (width, dim), torch.float32)
        self.rate = -rate.T.contiguous().exp()
        self.skip = weights.tensor("D", (width,), torch.float32)
        self.output = Linear(weights, "out_proj", width, sizes.hidden, bias=bias)

    def __call__(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """`hidden` [n, hidden_size], normalised -> [n, hidden_size]."""
        if memory.is_step:
            return self._step(hidden, memory, layer)
        return in_runs(self._runs, hidden, memory, layer)

    def _step(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """The output [n, hidden_size] of tokens one after the other."""
        ops = self._ops
        mixed, gate = self._projected(hidden, True)

        def convolve(state: LayerState, count: int) -> Tensor:
            taps = self.conv, self.conv_bias
            return ops.causal_conv_step(mixed[:count], state[0], *taps, hidden.dtype)

        inputs = memory.advance(layer, convolve)
        b, c, steps = self._selected(inputs, True)
        times = self._times(steps)

        def scan(state: LayerState, count: int) -> Tensor:
            selected = b[:count], c[:count], times[:count]
            given = inputs[:count], *selected, self.rate, self.skip
            return ops.mamba1_step(SpaceInputs(*given), state[1])

        read = memory.advance(layer, scan)
        return self.output(self._opened(read, gate), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        """The output [n, hidden_size] of `runs`, which follow each other.

        The convolution goes over them as over one, for its results are multiplied by matrices,
        which are read once for all.
        """
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
            self._scan(
                gated[rows], (inputs[rows], b[rows], c[rows]), steps[rows], gate[rows], state
            )
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
        """What a run reads of inputs, B and C, through its gate into `result`; moves `state` on."""
        rows_per_part = self._ops.rows_per_part or result.shape[0]
        for start in range(0, result.shape[0], rows_per_part):
            part = slice(start, start + rows_per_part)
            inputs, b, c = (each[part] for each in given)
            times = self._times(steps[part])
            scanned = SpaceInputs(inputs, b, c, times, self.rate, self.skip)
            read = self._ops.mamba1_run_(scanned, state)
            result[part] = self._opened(read, gate[part])

    def _projected(self, hidden: Tensor, is_step: bool) -> tuple[Tensor, ...]:
        """Views [n, width] of what is convolved, and of the gate."""
        (projected,) = self.projection(hidden, is_step)
        return torch.split(projected, [self.sizes.width] * 2, dim=1)

    def _convolved(self, mixed: Tensor, tail: Tensor) -> Iterator[tuple[slice, Tensor]]:
        ops, dtype = self._ops, mixed.dtype
        return convolved_parts(ops, mixed, tail, self.conv, self.conv_bias, dtype)

    def _selected(self, inputs: Tensor, is_step: bool) -> tuple[Tensor, Tensor, Tensor]:
        """B, C [n, state_dim], and what time steps [n, width] are made of."""
        dim = self.sizes.state_dim
        found = self.selection(inputs, is_step)
        steps, b, c = torch.split(found, [self.sizes.rank, dim, dim], dim=1)
        return self.b_norm(b), self.c_norm(c), self.steps(self.step_norm(steps), is_step)

    def _times(self, steps: Tensor) -> Tensor:
        """The time steps [n, width] float32."""
        return self._ops.time_steps(steps, self.step_bias, 1.0, *_NO_LIMITS)

    def _opened(self, read: Tensor, gate: Tensor) -> Tensor:
        """What was read [n, width] times silu of the gate, as `gate`."""
        return self._ops.gated_group_norm(read[:, None], None, gate, 0.0, 1.0, False)


def _move_on(tail: Tensor, rows: Tensor) -> None:
    """Make `tail`, the rows before a run, its last ones."""
    before = tail.shape[0]
    tail.copy_(torch.cat((tail, rows[-before:]))[-before:])


def _spec(sizes: Mamba1Sizes, dtype: torch.dtype) -> RecurrentSpec:
    tail = StateTensor((sizes.kernel - 1, sizes.width), dtype)
    # Channels last, as the scan reads them: see kernels/mamba1/reference.py.
    return RecurrentSpec((tail, StateTensor((sizes.state_dim, sizes.width), torch.float32)))
