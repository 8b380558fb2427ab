"""The selective scan of Mamba-1 in plain torch (Gu and Dao 2023, arXiv:2312.00752).

Per channel, with an input x, a time step d > 0, rates A [N] < 0 and a skip D; B and C [N] are
shared by all channels:

    s <- e^(d A) s + d x B;  y = C s + D x

All float32. Shapes: x and d [n, channels]; B and C [n, N]; A [N, channels]; D [channels]; state [N,
channels].
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.common.shapes import SpaceInputs

# As in Mamba-2: what decayed to e^-40 is lost beside anything in float32.
_FORGOTTEN = -40.0


def mamba1_step(given: SpaceInputs, state: Tensor) -> Tensor:
    """A `StateSpace`, token by token."""
    if given.inputs.shape[0] > 1:
        return torch.cat([mamba1_step(token, state) for token in given.split(1)])
    inputs, b, c, steps, rate, skip = given
    values = inputs[0].float()
    state.mul_((rate * steps[0]).clamp_(min=_FORGOTTEN).exp_())
    state.addcmul_(b[0].float()[:, None], values * steps[0])
    return (c[0].float() @ state).addcmul_(values, skip)[None]


def mamba1_run_(given: SpaceInputs, state: Tensor) -> Tensor:
    """Like `mamba1_step`: with a rate for each state, chunks would need a product for each."""
    inputs = given.inputs
    outputs = torch.empty(inputs.shape, dtype=torch.float32, device=inputs.device)
    for place, token in enumerate(given.split(1)):
        outputs[place : place + 1] = mamba1_step(token, state)
    return outputs
