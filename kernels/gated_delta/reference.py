"""The gated delta rule in plain torch (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464).

With unit keys k and queries q / sqrt(dk), per head and token:

    S <- e^g S;  delta = beta (v - S^T k);  S <- S + k delta^T;  o = S^T q

`recurrent_gated_delta` is this loop. `chunked_gated_delta` computes the same in chunks of C tokens:
with G_i = g_1 + .. + g_i, Gamma_ij = e^(G_i - G_j) for i >= j, and
A = strictly_lower(beta K K^T Gamma),

    D = (I + A)^-1 (beta V - beta e^G K S);  O = e^G Q S + lower(Q K^T Gamma) D
    S <- e^(G_C) S + (e^(G_C - G) K)^T D

All arithmetic and the state are float32. Each key head serves hv / hk neighbouring value heads.
Shapes: queries, keys [n, hk, dk]; values [n, hv, dv]; decay g and beta [n, hv]; state [hv, dk, dv].
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 64  # A is CHUNK x CHUNK; 64 is where the released models' own kernels cut
_EPSILON = 1e-6  # under the root of a key's squared length


def recurrent_gated_delta(
    queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, beta: Tensor, *, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Token by token: outputs [n, hv, dv] float32 and the state after them, a new tensor."""
    queries, keys = _prepare(queries, keys, state.shape[0])
    values, beta, kept = values.float(), beta.float(), decay.float().exp()
    outputs = torch.empty_like(values)
    for token in range(values.shape[0]):
        key = keys[token].unsqueeze(1)
        state = state * kept[token, :, None, None]
        predicted = torch.bmm(key, state)
        delta = (values[token].unsqueeze(1) - predicted) * beta[token, :, None, None]
        state = torch.baddbmm(state, key.transpose(1, 2), delta)
        outputs[token] = torch.bmm(queries[token].unsqueeze(1), state).squeeze(1)
    return outputs, state


def chunked_gated_delta(
    queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, beta: Tensor, *, state: Tensor
) -> tuple[Tensor, Tensor]:
    """In chunks of 64: outputs [n, hv, dv] float32 and the state after them, a new tensor.

    A last partial chunk is filled with k = v = beta = 0 and g = 0, which leaves the state alone.
    """
    num_tokens, num_heads = decay.shape
    queries, keys = _prepare(queries, keys, num_heads)
    queries, keys, values = (_in_chunks(each) for each in (queries, keys, values.float()))
    beta = _in_chunks(beta.float().unsqueeze(-1))
    total = _in_chunks(decay.float().unsqueeze(-1)).cumsum(2)
    since_start, until_end = total.exp(), (total[:, :, -1:] - total).exp()
    weights = _pairwise_decay(total.squeeze(-1))
    inverse = _inverse((keys @ keys.mT).mul_(weights).mul_(beta))
    attention = (queries @ keys.mT).mul_(weights)
    writes, reads = values * beta, keys * (beta * since_start)
    queries, keys = queries * since_start, keys * until_end
    outputs = torch.empty_like(values)
    for chunk in range(values.shape[1]):
        errors = torch.baddbmm(writes[:, chunk], reads[:, chunk], state, alpha=-1)
        delta = torch.bmm(inverse[:, chunk], errors)
        answer = torch.bmm(queries[:, chunk], state)
        outputs[:, chunk] = torch.baddbmm(answer, attention[:, chunk], delta)
        state = torch.baddbmm(state * since_start[:, chunk, -1:], keys[:, chunk].mT, delta)
    return outputs.flatten(1, 2)[:, :num_tokens].transpose(0, 1), state


def _prepare(queries: Tensor, keys: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    """Unit keys and scaled unit queries in float32, one for each value head."""
    copies = num_heads // keys.shape[1]
    queries, keys = (_unit(each.float()) for each in (queries, keys))
    queries = queries * queries.shape[-1] ** -0.5
    if copies == 1:
        return queries, keys
    return queries.repeat_interleave(copies, 1), keys.repeat_interleave(copies, 1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + _EPSILON)


def _in_chunks(rows: Tensor) -> Tensor:
    """[n, heads, d] -> [heads, chunks, CHUNK, d], zeros after the last row."""
    missing = -rows.shape[0] % CHUNK
    padded = F.pad(rows, (0, 0, 0, 0, 0, missing)).transpose(0, 1)
    num_heads, num_rows, width = padded.shape
    return padded.reshape(num_heads, num_rows // CHUNK, CHUNK, width)


def _pairwise_decay(total: Tensor) -> Tensor:
    """e^(G_i - G_j) on and below the diagonal, zero above: [..., CHUNK] -> [..., CHUNK, CHUNK].

    The mask comes before exp: above the diagonal the difference is positive and may overflow.
    """
    difference = total.unsqueeze(-1) - total.unsqueeze(-2)
    above = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=total.device).triu_(1)
    return difference.masked_fill_(above, float("-inf")).exp_()


def _inverse(lower: Tensor) -> Tensor:
    """(I + strictly lower part)^-1; what is on and above the diagonal of `lower` is not read.

    Inverts blocks of twice the size from blocks of one: the lower left of the inverse of
    [[P, 0], [A, Q]] is -Q^-1 A P^-1. Six rounds of batched products take 1.3 ms for 128 matrices,
    a triangular solve for each matrix 2.3 ms, and it wakes all threads once a matrix.
    """
    inverse = torch.eye(CHUNK, device=lower.device).expand_as(lower).clone()
    size = 1
    while size < CHUNK:
        below = _diagonal_blocks(lower, 2 * size)[..., size:, :size]
        blocks = _diagonal_blocks(inverse, 2 * size)
        first, second = blocks[..., :size, :size], blocks[..., size:, size:]
        blocks[..., size:, :size] = -(second @ below @ first)
        size *= 2
    return inverse


def _diagonal_blocks(matrices: Tensor, size: int) -> Tensor:
    """A view [.., CHUNK / size, size, size] of the blocks along the diagonal."""
    count = CHUNK // size
    tiles = matrices.view(*matrices.shape[:-2], count, size, count, size)
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
