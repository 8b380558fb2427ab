"""The gated short convolution of LFM2, in plain torch.

y_t = C_t * (b + sum_j w_j * (B x)_(t - K + 1 + j)), one weight per channel and tap, zeros before
token 0; perhaps with a bias b per channel. B x is rounded to the model's type, in which a tail
keeps it: the last K - 1 rows before a run, [K - 1, channels], the oldest first.
"""

from __future__ import annotations

import torch
from torch import Tensor


def short_conv(projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One run, or one token, that follows `tail`, which is updated in place.

    `projected` [n, 3 * channels] holds B, C and x side by side, in the model's type; `weight`
    [K, channels] and `bias` [channels] float32. Returns [n, channels] in the model's type.
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
