"""The state space of Mamba-2 in plain torch (Dao and Gu 2024, arXiv:2405.21060).

Per head, with inputs x [P], maps B and C [N], a time step d > 0, a rate A < 0 and a skip D:

    S <- e^(d A) S + d x B^T;  y = S C + D x

`mamba2_run_` computes chunks in the dual form: with G_i = A (d_1 + .. + d_i) and Gamma_ij = e^(G_i
- G_j) for i >= j,

    Y = e^G C S^T + lower(C B^T Gamma) (d X) + D X;  S <- e^(G_n) S + (e^(G_n - G) d X)^T B

All arithmetic and the state are float32. B and C of a group serve neighbouring heads. Shapes: x [n,
heads, P]; B and C [n, groups, N]; d [n, heads]; A and D [heads]; state [heads, P, N].
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.shapes import SpaceInputs

CHUNK = 64  # tokens whose products are one matrix; as many as a layer hands over at a time
# As in the gated delta rule: what decayed to e^-40 is lost beside anything in float32, and smaller
# factors end in numbers below 1e-38, with which a processor computes ten times slower and more.
_FORGOTTEN = -40.0


def time_steps(
    steps: Tensor, bias: Tensor, multiplier: float, shortest: float, longest: float
) -> Tensor:
    """softplus(multiplier * steps + bias) [n, heads] float32, within `shortest` and `longest`."""
    found = F.softplus(torch.add(bias, steps.float(), alpha=multiplier))
    return found.clamp_(shortest, longest)


def mamba2_step(given: SpaceInputs, state: Tensor) -> Tensor:
    """A `StateSpace`, token by token."""
    if given.inputs.shape[0] > 1:
        return torch.cat([mamba2_step(token, state) for token in given.split(1)])
    inputs, b, c, steps, rate, skip = given
    copies = state.shape[0] // b.shape[1]
    values = inputs[0].float()
    b, c = (_each(each[0].float(), copies) for each in (b, c))
    state.mul_((steps[0] * rate).clamp(min=_FORGOTTEN).exp_()[:, None, None])
    state.baddbmm_((values * steps[0, :, None])[:, :, None], b[:, None])
    answers = torch.bmm(state, c[:, :, None])[:, :, 0]
    return answers.addcmul_(values, skip[:, None])[None]


def mamba2_run_(given: SpaceInputs, state: Tensor) -> Tensor:
    """A `StateSpace`, in chunks."""
    outputs = [_chunk(chunk, state) for chunk in given.split(CHUNK)]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _chunk(given: SpaceInputs, state: Tensor) -> Tensor:
    inputs, b, c, steps, rate, skip = given
    copies = state.shape[0] // b.shape[1]
    values = inputs.float().transpose(0, 1)
    b, c = b.float().transpose(0, 1), c.float().transpose(0, 1)
    scaled = values * steps.T[:, :, None]
    total = (steps * rate).T.cumsum(-1)[:, :, None]
    # Masked before the exponential: above the diagonal the differences are positive.
    weights = (total - total.mT).clamp_(_FORGOTTEN, 0).exp_().tril_()
    until_end, since_start = weights[:, -1, :, None], total.clamp(min=_FORGOTTEN).exp_()
    weights = weights * _each(torch.bmm(c, b.mT), copies)
    b, c = _each(b, copies), _each(c, copies)
    answers = torch.bmm(c, state.mT).mul_(since_start).baddbmm_(weights, scaled)
    answers.addcmul_(values, skip[:, None, None])
    state.mul_(since_start[:, -1:]).baddbmm_((scaled * until_end).mT, b)
    return answers.transpose(0, 1)


def _each(groups: Tensor, copies: int) -> Tensor:
    return groups if copies == 1 else groups.repeat_interleave(copies, 0)
