"""The gated delta rule in plain torch (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464).

With unit keys k and queries q / sqrt(dk), per head and token:

    S <- e^g S;  delta = beta (v - S^T k);  S <- S + k delta^T;  o = S^T q

`chunked_gated_delta_` computes C tokens at once: with G_i = g_1 + .. + g_i, Gamma_ij = e^(G_i -
G_j) for i >= j, and A = strictly_lower(beta K K^T Gamma),

    (I + A) D = beta (V - e^G K S);  O = e^G Q S + lower(Q K^T Gamma) D
    S <- e^(G_C) S + (e^(G_C - G) K)^T D

In Kimi Delta Attention (Kimi Linear 2025, arXiv:2510.26692) each number of a key has a decay of its
own: e^g is a diagonal matrix, and Gamma is inside the sums of K K^T and Q K^T.

All arithmetic and the state are float32. Each key head serves hv / hk neighbouring value heads.
Shapes: queries, keys [n, hk, dk]; values [n, hv, dv]; decay g [n, hv], or [n, hv, dk] by channel;
beta [n, hv]; state [hv, dk, dv].
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.shapes import DeltaInputs

CHUNK = 64  # A is CHUNK x CHUNK; 64 is where the released models' own kernels cut
CHANNEL_CHUNK = (
    16  # with a decay by channel, whose Gamma has as many numbers for each pair as a key
)
_EPSILON = 1e-6  # under the root of a key's squared length
# A value decayed to e^-40 is 4e-18 of itself: lost next to anything in float32. Smaller factors
# end in numbers below 1e-38, with which a processor computes ten times slower and more.
_FORGOTTEN = -40.0


def recurrent_gated_delta_step(given: DeltaInputs, state: Tensor) -> Tensor:
    """A `DeltaRule`, token by token."""
    if given.keys.shape[0] > 1:
        return torch.cat([recurrent_gated_delta_step(token, state) for token in given.split(1)])
    queries, keys, values, decay, beta = given
    copies = state.shape[0] // keys.shape[1]
    query, key = _each(_unit_rows(queries), copies), _each(_unit_rows(keys), copies)
    value, beta = values.float().transpose(0, 1), beta.float().T.unsqueeze(-1)
    state.mul_(_by_head(decay).mT.clamp(min=_FORGOTTEN).exp_())
    delta = torch.baddbmm(value, key, state, alpha=-1).mul_(beta)
    state.baddbmm_(key.mT, delta)
    # With beta=0 the first argument lends its shape alone, and the query's length costs no call.
    scale = queries.shape[-1] ** -0.5
    return torch.baddbmm(delta, query, state, beta=0, alpha=scale).transpose(0, 1)


def chunked_gated_delta_(given: DeltaInputs, state: Tensor) -> Tensor:
    """A `DeltaRule`, in chunks."""
    rows = CHUNK if given.decay.dim() == 2 else CHANNEL_CHUNK
    outputs = [_chunk(chunk, state) for chunk in given.split(rows)]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def delta_gates(
    step: Tensor, beta: Tensor, rate: Tensor, bias: Tensor, multiplier: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The log decay rate * softplus(step + bias) and multiplier * sigmoid(beta), both float32.

    `step` [n, decays] and `beta` [n, hv] are projections; `rate` < 0 and `bias` [decays] are
    float32. There are hv decays, or hv * dk by channel.
    """
    return rate * F.softplus(step.float() + bias), torch.sigmoid(beta.float()).mul_(multiplier)


def _chunk(given: DeltaInputs, state: Tensor) -> Tensor:
    queries, keys, values, decay, beta = given
    copies = state.shape[0] // keys.shape[1]
    queries, keys = _unit(queries, queries.shape[-1] ** -0.5), _unit(keys)
    values, beta = values.float().transpose(0, 1), beta.float().T.unsqueeze(-1)
    total = _by_head(decay).cumsum(1)
    since_start = total.clamp(min=_FORGOTTEN).exp_()
    kept = since_start[:, -1:].mT
    if decay.dim() == 2:
        weights = (total - total.mT).clamp_(_FORGOTTEN, 0).exp_().tril_()
        attention = _each(torch.bmm(queries, keys.mT), copies).mul_(weights)
        lower = _each(torch.bmm(keys, keys.mT), copies).mul_(weights)
        queries, keys = _each(queries, copies), _each(keys, copies)
        latest = keys * weights[:, -1].unsqueeze(-1)
    else:
        queries, keys = _each(queries, copies), _each(keys, copies)
        gamma = (total.unsqueeze(2) - total.unsqueeze(1)).clamp_(_FORGOTTEN, 0).exp_()
        weighed = gamma.mul_(keys.unsqueeze(1))
        attention = torch.matmul(weighed, queries.unsqueeze(-1)).squeeze(-1).tril_()
        lower, latest = torch.matmul(weighed, keys.unsqueeze(-1)).squeeze(-1), weighed[:, -1]
        # What is read from the state decays before the sums, not after them.
        queries, keys = queries * since_start, keys * since_start
        since_start = _constant(1.0, state.device)
    errors = torch.addcmul(values, torch.bmm(keys, state), since_start, value=-1).mul_(beta)
    delta = _solve(lower.mul_(beta), errors)
    answers = torch.bmm(queries, state).mul_(since_start).baddbmm_(attention, delta)
    state.mul_(kept).baddbmm_(latest.mT, delta)
    return answers.transpose(0, 1)


def _by_head(decay: Tensor) -> Tensor:
    """[hv, n, 1], or [hv, n, dk] by channel, in float32."""
    return decay.float().view(*decay.shape[:2], -1).transpose(0, 1)


def _solve(lower: Tensor, errors: Tensor) -> Tensor:
    """D in (I + strictly lower part) D = errors; the rest of the matrix is not read.

    Transposed, D^T (I + ..)^T = errors^T, it spares copies into column order.
    """
    solution: Tensor = torch.linalg.solve_triangular(
        lower.mT, errors.mT, upper=True, left=False, unitriangular=True
    )
    return solution.mT


def _unit(vectors: Tensor, length: float = 1.0) -> Tensor:
    """Vectors [n, heads, d] scaled to `length`: [heads, n, d] float32."""
    vectors = vectors.float().transpose(0, 1)
    squared = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).square_()
    factors = squared.add_(_EPSILON).rsqrt_().mul_(length)
    # An empty result makes the heads the outer axis in memory too, as products read them best.
    return torch.mul(vectors, factors, out=vectors.new_empty(vectors.shape))


def _unit_rows(vectors: Tensor) -> Tensor:
    """Vectors [1, heads, d] scaled to length 1: [heads, 1, d] float32."""
    vectors = vectors.float().transpose(0, 1)
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.hypot(length, _constant(_EPSILON**0.5, vectors.device))


@cache
def _constant(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, device=device)


def _each(heads: Tensor, copies: int) -> Tensor:
    return heads if copies == 1 else heads.repeat_interleave(copies, 0)
