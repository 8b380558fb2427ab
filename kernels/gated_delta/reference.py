"""The gated delta rule in plain torch (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464).

With unit keys k and queries q / sqrt(dk), per head and token:

    S <- e^g S;  delta = beta (v - S^T k);  S <- S + k delta^T;  o = S^T q

`recurrent_gated_delta_step` is this loop. `chunked_gated_delta_` does so for C tokens at once: with
G_i = g_1 + .. + g_i, Gamma_ij = e^(G_i - G_j) for i >= j, and
A = strictly_lower(beta K K^T Gamma),

    (I + A) D = beta (V - e^G K S);  O = e^G Q S + lower(Q K^T Gamma) D
    S <- e^(G_C) S + (e^(G_C - G) K)^T D

All arithmetic and the state are float32. Each key head serves hv / hk neighbouring value heads.
Shapes: queries, keys [n, hk, dk]; values [n, hv, dv]; decay g and beta [n, hv]; state [hv, dk, dv].
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.scans import DeltaInputs

CHUNK = 64  # A is CHUNK x CHUNK; 64 is where the released models' own kernels cut
_EPSILON = 1e-6  # under the root of a key's squared length
# A value decayed to e^-40 is 4e-18 of itself: lost next to anything in float32. Smaller factors
# end in numbers below 1e-38, with which a processor computes ten times slower and more.
_FORGOTTEN = -40.0


def recurrent_gated_delta_step(given: DeltaInputs, state: Tensor) -> Tensor:
    """Token by token: outputs [n, hv, dv] float32; `state` is updated in place."""
    if given.keys.shape[0] > 1:
        return torch.cat([recurrent_gated_delta_step(token, state) for token in given.split(1)])
    queries, keys, values, decay, beta = given
    copies = state.shape[0] // keys.shape[1]
    query, key = _each(_unit_rows(queries), copies), _each(_unit_rows(keys), copies)
    value, beta = values.float().transpose(0, 1), beta.float().T.unsqueeze(-1)
    state.mul_(decay.float().T.unsqueeze(-1).clamp(min=_FORGOTTEN).exp_())
    delta = torch.baddbmm(value, key, state, alpha=-1).mul_(beta)
    state.baddbmm_(key.mT, delta)
    # With beta=0 the first argument lends its shape alone, and the query's length costs no call.
    scale = queries.shape[-1] ** -0.5
    return torch.baddbmm(delta, query, state, beta=0, alpha=scale).transpose(0, 1)


def chunked_gated_delta_(given: DeltaInputs, state: Tensor) -> Tensor:
    """In chunks of 64: outputs [n, hv, dv] float32; `state` is updated in place."""
    outputs = [_chunk(chunk, state) for chunk in given.split(CHUNK)]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def delta_gates(
    step: Tensor, beta: Tensor, rate: Tensor, bias: Tensor, multiplier: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The log decay rate * softplus(step + bias) and multiplier * sigmoid(beta), both [n, hv]
    float32.

    `step` and `beta` [n, hv] are a layer's projections; `rate` < 0 and `bias` [hv] are float32.
    """
    return rate * F.softplus(step.float() + bias), torch.sigmoid(beta.float()).mul_(multiplier)


def _chunk(given: DeltaInputs, state: Tensor) -> Tensor:
    queries, keys, values, decay, beta = given
    copies = state.shape[0] // keys.shape[1]
    queries, keys = _unit_queries(queries), _unit(keys)
    values, beta = values.float().transpose(0, 1), beta.float().T.unsqueeze(-1)
    total = decay.float().T.cumsum(-1).unsqueeze(-1)
    weights = (total - total.mT).clamp_(_FORGOTTEN, 0).exp_().tril_()
    attention = _each(torch.bmm(queries, keys.mT), copies).mul_(weights)
    lower = _each(torch.bmm(keys, keys.mT), copies).mul_(weights).mul_(beta)
    queries, keys = _each(queries, copies), _each(keys, copies)
    since_start, until_end = total.clamp(min=_FORGOTTEN).exp_(), weights[:, -1].unsqueeze(-1)
    errors = torch.addcmul(values, torch.bmm(keys, state), since_start, value=-1).mul_(beta)
    delta = _solve(lower, errors)
    answers = torch.bmm(queries, state).mul_(since_start).baddbmm_(attention, delta)
    state.mul_(since_start[:, -1:]).baddbmm_((keys * until_end).mT, delta)
    return answers.transpose(0, 1)


def _solve(lower: Tensor, errors: Tensor) -> Tensor:
    """D in (I + strictly lower part) D = errors; the rest of the matrix is not read.

    Solved as D^T (I + ..)^T = errors^T, which spares the solver's copies into column order.
    """
    solution: Tensor = torch.linalg.solve_triangular(
        lower.mT, errors.mT, upper=True, left=False, unitriangular=True
    )
    return solution.mT


def _unit_queries(queries: Tensor) -> Tensor:
    return _unit(queries, queries.shape[-1] ** -0.5)


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
