"""Depthwise causal convolutions, in plain torch: with silu, and LFM2's gated one.

With silu: c_t = silu(b + sum_j w_j * u_(t - K + 1 + j)); gated, with u = B x rounded to the model's
type: y_t = C_t * (b + sum_j w_j * u_(t - K + 1 + j)). Weights are [K, channels], biases b optional,
and zeros precede token 0. A tail is the K - 1 inputs before the tokens, [K - 1, channels] in the
model's type, the oldest first.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def causal_conv_step(
    inputs: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Outputs [n, channels], computed in float32, as `dtype`; `tail` is updated in place."""
    if inputs.shape[0] > 1:
        steps = [causal_conv_step(row, tail, weight, bias, dtype) for row in inputs.split(1)]
        return torch.cat(steps)
    rows = torch.cat((tail, inputs))
    total = rows.to(torch.float32, copy=True).mul_(weight).sum(0, keepdim=True)
    if bias is not None:
        total.add_(bias)
    tail.copy_(rows[1:])
    return F.silu(total, inplace=True).to(dtype)


def convolve(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The last n outputs of `rows` [n + K - 1, channels], computed in float32, as `dtype`."""
    taps = weight.shape[0]
    num_tokens = rows.shape[0] - taps + 1
    # K multiply-adds over whole rows: a depthwise conv1d spends most of its time on layout.
    wide = rows.float()
    total = wide[:num_tokens] * weight[0]
    for tap in range(1, taps):
        total.addcmul_(wide[tap : tap + num_tokens], weight[tap])
    if bias is not None:
        total.add_(bias)
    return F.silu(total, inplace=True).to(dtype)


def short_conv(projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One or more tokens that follow `tail`, which is updated in place.

    `projected` [n, 3 * channels] holds B, C and x; `weight` [K, channels] and `bias` [channels] are
    float32. Returns [n, channels] in the type of `projected`.
    """
    before, after, inputs = projected.chunk(3, dim=1)
    rows = torch.cat((tail, before * inputs))
    tail.copy_(rows[rows.shape[0] - tail.shape[0] :])
    wide, num_tokens = rows.float(), projected.shape[0]
    total = wide[:num_tokens] * weight[0]
    for tap in range(1, weight.shape[0]):
        total.addcmul_(wide[tap : tap + num_tokens], weight[tap])
    if bias is not None:
        total.add_(bias)
    return total.mul_(after).to(projected.dtype)
