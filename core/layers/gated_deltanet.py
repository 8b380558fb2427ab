"""The gated delta net: linear attention that keeps one matrix per head instead of all keys.

Gated Delta Networks (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464), in the form of Qwen3.5:
one projection to queries, keys and values, a causal convolution over it, the gated delta rule, and
a gated norm. Its memory is the last rows before the convolution, and the matrices in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.norm import GatedRMSNorm
from core.layers.runs import Runs, convolved_parts, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.scans import DeltaInputs
from kernels.common.shapes import DeltaShape


@dataclass(frozen=True, slots=True)
class GatedDeltaNetSizes:
    """Heads and widths: hk key heads of dk, hv value heads of dv, convolution over `kernel`.

    `by_key_head`: what goes into a key head's value heads lies together in the file, as Qwen3-Next
    publishes it, and is put into the order of Qwen3.5 when it is packed.
    """

    hidden: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int
    by_key_head: bool = False

    @property
    def projections(self) -> list[tuple[str, int]]:
        """Maps of the layer's inputs with their outputs, as the model takes them."""
        return [
            ("in_proj_qkv", self.conv_width),
            ("in_proj_z", self.value_width),
            ("in_proj_b", self.value_heads),
            ("in_proj_a", self.value_heads),
        ]

    @property
    def key_width(self) -> int:
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def conv_width(self) -> int:
        return 2 * self.key_width + self.value_width

    @property
    def shape(self) -> DeltaShape:
        """As kernels want to know it."""
        heads = self.key_heads, self.key_dim, self.value_heads, self.value_dim
        return DeltaShape(*heads, self.kernel)


class GatedDeltaNet:
    """One layer; long runs go through it in blocks that hand their state on.

    `input_norm` as in `JoinedLinear`.
    """

    def __init__(
        self,
        weights: Weights,
        sizes: GatedDeltaNetSizes,
        epsilon: float,
        input_norm: InputNorm | None = None,
    ) -> None:
        self.sizes = sizes
        self.spec = _spec(sizes, weights.dtype)
        self._ops = weights.ops(sizes.shape)
        heads = sizes.value_heads
        self.projections = _projections(weights, sizes, input_norm)
        conv = weights.tensor("conv1d.weight", (sizes.conv_width, 1, sizes.kernel), torch.float32)
        self.conv = conv.squeeze(1).T.contiguous()
        # Small, and exponentiated: float32 whatever the model's type.
        self.rate = -weights.tensor("A_log", (heads,), torch.float32).exp()
        self.bias = weights.tensor("dt_bias", (heads,), torch.float32)
        self.norm = GatedRMSNorm(weights.scope("norm"), sizes.value_dim, epsilon)
        self.output = Linear(weights, "out_proj", sizes.value_width, sizes.hidden)

    def __call__(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """`hidden` [n, hidden_size], normalised -> [n, hidden_size]."""
        if memory.is_step:
            return self._step(hidden, memory, layer)
        return in_runs(self._runs, hidden, memory, layer)

    def _step(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """The output [n, hidden_size] of tokens one after the other."""
        mixed, gate, beta, step = self.projections(hidden, True)
        decay, beta = self._gates(beta, step)

        def advance(state: LayerState, count: int) -> Tensor:
            tail, matrices = state
            heads = self._heads(self._ops.causal_conv_step(mixed[:count], tail, self.conv))
            gates = decay[:count], beta[:count]
            return self._ops.recurrent_gated_delta_step(DeltaInputs(*heads, *gates), matrices)

        read = memory.advance(layer, advance)
        return self.output(self.norm(read, gate.view(read.shape)).flatten(1), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        """The output [n, hidden_size] of `runs`."""
        mixed, gate, beta, step = self.projections(hidden)
        decay, beta = self._gates(beta, step)
        gated, start = torch.empty_like(gate), 0
        for num_rows, state in runs:
            rows = slice(start, start + num_rows)
            self._run(gated[rows], mixed[rows], gate[rows], decay[rows], beta[rows], *state)
            start += num_rows
        return self.output(gated)

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
        """What a run reads, through its gate into `result`; moves `tail` and `state` on."""
        for part, columns in convolved_parts(self._ops, mixed, tail, self.conv):
            heads, gates = self._heads(columns), (decay[part], beta[part])
            read = self._ops.chunked_gated_delta_(DeltaInputs(*heads, *gates), state)
            result[part] = self.norm(read, gate[part].view(read.shape)).flatten(1)

    def _heads(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split convolved columns [n, channels] into queries, keys and values by head."""
        sizes = self.sizes
        queries, keys, values = torch.split(columns, sizes.shape.widths, dim=1)
        key_heads = (-1, sizes.key_heads, sizes.key_dim)
        by_value = values.view(-1, sizes.value_heads, sizes.value_dim)
        return queries.view(key_heads), keys.view(key_heads), by_value

    def _gates(self, beta: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """The log decay g <= 0 and beta in (0, 1), both [n, hv] float32."""
        return self._ops.delta_gates(step, beta, self.rate, self.bias)


def _projections(
    weights: Weights, sizes: GatedDeltaNetSizes, input_norm: InputNorm | None
) -> JoinedLinear:
    parts = sizes.projections
    if not sizes.by_key_head:
        return JoinedLinear(weights, parts, sizes.hidden, input_norm=input_norm)
    widths = [outputs for _, outputs in parts]
    of_rows, of_gates = sum(widths[:2]), sum(widths[2:])
    stored = [("in_proj_qkvz", of_rows), ("in_proj_ba", of_gates)]
    return JoinedLinear(
        weights,
        stored,
        sizes.hidden,
        input_norm=input_norm,
        reordered=(widths, partial(_by_kind, sizes)),
    )


def _by_kind(sizes: GatedDeltaNetSizes) -> Tensor:
    """The rows as they are published by key head, in the order of `projections`."""
    values = sizes.value_width // sizes.key_heads
    of_rows = sizes.conv_width + sizes.value_width
    rows = torch.arange(of_rows).view(sizes.key_heads, -1)
    rows_by_kind = rows.split([sizes.key_dim, sizes.key_dim, values, values], dim=1)
    gates = torch.arange(of_rows, of_rows + 2 * sizes.value_heads).view(sizes.key_heads, -1)
    return torch.cat([each.flatten() for each in (*rows_by_kind, *gates.chunk(2, dim=1))])


def _spec(sizes: GatedDeltaNetSizes, dtype: torch.dtype) -> RecurrentSpec:
    tail = StateTensor((sizes.kernel - 1, sizes.conv_width), dtype)
    state = (sizes.value_heads, sizes.key_dim, sizes.value_dim)
    return RecurrentSpec((tail, StateTensor(state, torch.float32)))
