"""The gated delta net: linear attention whose memory is one matrix per head.

Gated Delta Networks (arXiv:2412.06464) as in Qwen3.5: a projection to queries, keys and values, a
causal convolution, the gated delta rule, a gated norm. State: the last rows before the convolution,
and the matrices in float32. Kimi Delta Attention (arXiv:2510.26692) has a decay for each channel of
a key.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, LayerMemory, LayerState, recurrent_spec
from core.layers.norm import GatedRMSNorm
from core.layers.runs import Runs, convolution_taps, convolved_parts, in_runs, run_by_run
from core.weights.plan import Orders, Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import DeltaInputs, DeltaShape


class GatedDeltaNet:
    """`by_key_head`: the file groups the projections' rows by key head, as Qwen3-Next does, or only
    those of beta and steps, as its GGUF files do; packing reorders them. `apart`: queries, keys,
    values and their convolutions are separate tensors. `most_beta` limits beta, the share of an old
    value that is replaced; above 1 its opposite remains. With decays by channel in `shape`, decays
    and the gate, which is a sigmoid's, are projected twice, first to as many numbers as a key or a
    value has."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        shape: DeltaShape,
        epsilon: float,
        *,
        by_key_head: bool = False,
        apart: bool = False,
        most_beta: float = 1.0,
        input_norm: InputNorm | None = None,
    ) -> None:
        self._most_beta = most_beta
        self.shape, heads = shape, shape.value_heads
        state = heads, shape.key_dim, shape.value_dim
        self.specs = (recurrent_spec(shape.taps, sum(shape.widths), state, weights.dtype),)
        self._ops = weights.ops(shape)
        self.projections: JoinedLinear | _LowRank
        if shape.by_channel:
            self.projections = _LowRank(weights, width, shape, input_norm)
        else:
            self.projections = _projections(weights, width, shape, by_key_head, apart, input_norm)
        self.conv = _taps(weights, shape, apart)
        # Small, and exponentiated: float32 whatever the model's type.
        each_head = (1, 1, heads, 1) if shape.by_channel else (heads,)
        rate = -weights.tensor("A_log", each_head, torch.float32).exp()
        self.rate = rate.flatten().repeat_interleave(shape.decays // heads)
        self.bias = weights.tensor("dt_bias", (shape.decays,), torch.float32)
        self.norm = GatedRMSNorm(
            weights.scope("norm"), shape.value_dim, epsilon, sigmoid=shape.by_channel
        )
        self.output = Linear(weights, "out_proj", shape.widths[2], width)

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        if forward.memory.is_step:
            return self._step(hidden, forward.memory, slot)
        return in_runs(self._runs, hidden, forward.memory, slot)

    def _step(self, hidden: Tensor, memory: LayerMemory, slot: int) -> Tensor:
        mixed, gate, beta, step = self.projections(hidden, True)
        decay, beta = self._gates(beta, step)

        def advance(state: LayerState, count: int) -> Tensor:
            tail, matrices = state
            heads = self._heads(self._ops.causal_conv_step(mixed[:count], tail, self.conv))
            gates = decay[:count], beta[:count]
            return self._ops.recurrent_gated_delta_step(DeltaInputs(*heads, *gates), matrices)

        read = memory.advance(slot, advance)
        return self.output(self.norm(read, gate.view(read.shape)).flatten(1), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        mixed, gate, beta, step = self.projections(hidden)
        columns = mixed, gate, *self._gates(beta, step)
        return self.output(run_by_run(self._run, gate, columns, runs))

    def _run(
        self,
        result: Tensor,
        mixed: Tensor,
        gate: Tensor,
        decay: Tensor,
        beta: Tensor,
        tail: Tensor,
        state: Tensor,
    ) -> None:
        """Writes the gated output into `result`; updates `tail` and `state`."""
        for part, columns in convolved_parts(self._ops, mixed, tail, self.conv):
            heads, gates = self._heads(columns), (decay[part], beta[part])
            read = self._ops.chunked_gated_delta_(DeltaInputs(*heads, *gates), state)
            result[part] = self.norm(read, gate[part].view(read.shape)).flatten(1)

    def _heads(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = self.shape
        queries, keys, values = torch.split(columns, shape.widths, dim=1)
        key_heads = (-1, shape.key_heads, shape.key_dim)
        by_value = values.view(-1, shape.value_heads, shape.value_dim)
        return queries.view(key_heads), keys.view(key_heads), by_value

    def _gates(self, beta: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """The log decay g <= 0, [n, value_heads] or by channel, and beta in (0, most_beta),
        [n, value_heads], both float32."""
        decay, beta = self._ops.delta_gates(step, beta, self.rate, self.bias, self._most_beta)
        return decay.unflatten(1, (beta.shape[1], -1)) if self.shape.by_channel else decay, beta


class _LowRank:
    def __init__(
        self, weights: Weights, width: int, shape: DeltaShape, input_norm: InputNorm | None
    ) -> None:
        heads, names = shape.value_heads, ("q_proj", "k_proj", "v_proj", "b_proj")
        parts = list(zip(names, (*shape.widths, heads), strict=True))
        widths = [sum(shape.widths), heads]
        self.direct = JoinedLinear(
            weights, parts, width, input_norm=input_norm, reordered=(widths, ())
        )
        sizes = {
            "g": (shape.value_dim, shape.widths[2]),
            "f": (shape.key_dim, shape.decays),
        }
        self.pairs = [
            (
                JoinedLinear(weights, [(f"{name}_a_proj", rank)], width, input_norm=input_norm),
                Linear(weights, f"{name}_b_proj", rank, outputs),
            )
            for name, (rank, outputs) in sizes.items()
        ]

    def __call__(self, hidden: Tensor, is_step: bool = False) -> tuple[Tensor, ...]:
        mixed, beta = self.direct(hidden, is_step)
        gate, step = (last(first(hidden, is_step)[0], is_step) for first, last in self.pairs)
        return mixed, gate, beta, step


def _projections(
    weights: Weights,
    width: int,
    shape: DeltaShape,
    by_key_head: bool,
    apart: bool,
    input_norm: InputNorm | None,
) -> JoinedLinear:
    heads, gate_width = shape.value_heads, shape.widths[2]
    widths = [sum(shape.widths), gate_width, heads, heads]
    if apart:
        parts = list(zip(("q_proj", "k_proj", "v_proj"), shape.widths, strict=True))
        parts += list(zip(("g_proj", "b_proj", "a_proj"), widths[1:], strict=True))
        return JoinedLinear(weights, parts, width, input_norm=input_norm, reordered=(widths, ()))
    if not by_key_head:
        names = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
        parts = list(zip(names, widths, strict=True))
        return JoinedLinear(weights, parts, width, input_norm=input_norm)
    values, of_gates = shape.widths[2] // shape.key_heads, [heads // shape.key_heads] * 2
    of_rows = [shape.key_dim, shape.key_dim, values, values]
    parts = [("in_proj_qkv", widths[0]), ("in_proj_z", gate_width)]
    orders: Orders = (None, None)
    if not weights.has("in_proj_qkv.weight"):
        parts = [("in_proj_qkvz", sum(widths[:2]))]
        orders = [partial(_by_kind, shape.key_heads, of_rows)]
    parts.append(("in_proj_ba", sum(widths[2:])))
    reordered = widths, [*orders, partial(_by_kind, shape.key_heads, of_gates)]
    return JoinedLinear(weights, parts, width, input_norm=input_norm, reordered=reordered)


def _taps(weights: Weights, shape: DeltaShape, apart: bool) -> Tensor:
    if not apart:
        return convolution_taps(weights.scope("conv1d"), sum(shape.widths), shape.taps)
    names = ("q_conv1d", "k_conv1d", "v_conv1d")
    parts = [
        convolution_taps(weights.scope(name), channels, shape.taps)
        for name, channels in zip(names, shape.widths, strict=True)
    ]
    return torch.cat(parts, dim=1)


def _by_kind(key_heads: int, widths: list[int]) -> Tensor:
    """The published row, grouped by key head, of each output, grouped by kind."""
    rows = torch.arange(key_heads * sum(widths)).view(key_heads, -1)
    return torch.cat([each.flatten() for each in rows.split(widths, dim=1)])
