"""What a gated delta net does with one token between its two matrices, in one call or in four.

Knows their order. Where a backend has the whole as one kernel that is used, since a generated token
waits for the number of calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.ops import Ops
from kernels.shapes import DeltaShape


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """A layer's own numbers, all float32: `conv` [taps, channels], `rate` and `bias` [hv] of the
    decay, `scale` [dv] of the norm. Results have `dtype`."""

    shape: DeltaShape
    conv: Tensor
    rate: Tensor
    bias: Tensor
    scale: Tensor
    epsilon: float
    dtype: torch.dtype

    def heads(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split convolved columns [n, channels] into queries, keys and values by head."""
        shape = self.shape
        queries, keys, values = torch.split(columns, shape.widths, dim=1)
        key_heads = (-1, shape.key_heads, shape.key_dim)
        by_value = values.view(-1, shape.value_heads, shape.value_dim)
        return queries.view(key_heads), keys.view(key_heads), by_value


Projected = tuple[Tensor, Tensor, Tensor, Tensor]
"""Columns before the convolution [n, channels], gate [n, hv * dv], beta and step [n, hv]."""


def delta_net_step(
    ops: Ops, net: DeltaNet, projected: Projected, tail: Tensor, state: Tensor
) -> Tensor:
    """One token: [1, hv * dv] for the second matrix; `tail` and `state` are moved on in place."""
    whole = ops.delta_net_step and ops.delta_net_step(net, projected, tail, state)
    if whole is not None:
        return whole
    mixed, gate, beta, step = projected
    heads = net.heads(ops.causal_conv_step(mixed, tail, net.conv))
    gates = ops.delta_gates(step, beta, net.rate, net.bias)
    read = ops.recurrent_gated_delta_step(*heads, *gates, state=state)
    gate = gate.view(read.shape)
    return ops.gated_rms_norm(read, net.scale, gate, net.epsilon, net.dtype).flatten(1)
