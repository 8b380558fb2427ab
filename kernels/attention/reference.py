"""Grouped causal attention in plain torch, straight from softmax(Q K^T scale) V.

Allocates every score at once: it is the truth for tests; `fused` is what the layers run.
"""

from __future__ import annotations

import torch
from torch import Tensor


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """The last n of m tokens attend to themselves and everything before them.

    `queries` [n, num_heads, head_dim]; `keys`, `values` [m, num_kv_heads, head_dim], m >= n. Each
    key head serves num_heads / num_kv_heads neighbouring query heads. Returns
    [n, num_heads, head_dim], computed in float32 and cast to the type of `queries`.
    """
    num_queries, num_keys = queries.shape[0], keys.shape[0]
    copies = queries.shape[1] // keys.shape[1]
    keys, values = (each.float().repeat_interleave(copies, 1) for each in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys) * scale
    unseen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=keys.device)
    scores.masked_fill_(unseen.triu_(num_keys - num_queries + 1), float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).to(queries.dtype)


def full_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Every token attends to every token; all [n, num_heads, head_dim]."""
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys.float()) * scale
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values.float()).to(queries.dtype)
