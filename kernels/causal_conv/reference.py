"""Depthwise causal convolution with silu, in plain torch.

c_t = silu(sum_j w_j * u_(t - K + 1 + j)), one weight per channel and tap, zeros before token 0.
Knows nothing of which columns are queries, keys or values.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def causal_conv(inputs: Tensor, tail: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve one run that follows the columns in `tail`.

    `inputs` [n, channels] in the model's type; `tail` [channels, K - 1], the last inputs before
    this run, oldest first; `weight` [K, channels] float32. Returns the outputs [n, channels] in
    float32 and the tail after this run, a new tensor that shares no memory with the others.
    """
    num_tokens = inputs.shape[0]
    padded = torch.cat((tail.T, inputs))
    # K multiply-adds over whole rows: a depthwise conv1d spends most of its time on layout.
    wide = padded.float()
    total = wide[:num_tokens] * weight[0]
    for tap in range(1, weight.shape[0]):
        total.addcmul_(wide[tap : tap + num_tokens], weight[tap])
    return F.silu(total, inplace=True), padded[num_tokens:].T.clone(
        memory_format=torch.contiguous_format
    )
