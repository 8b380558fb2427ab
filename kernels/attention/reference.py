"""Grouped attention in plain torch, straight from softmax(Q K^T scale) V.

Allocates every score at once: it is the reference for tests; `fused` is what the layers run.
"""

from __future__ import annotations

import torch
from torch import Tensor


def causal_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None = None
) -> Tensor:
    """The last n of m tokens attend to themselves and everything before them.

    `queries` [n, num_heads, head_dim]; `keys`, `values` [m, num_kv_heads, head_dim], m >= n. Each
    key head serves num_heads / num_kv_heads neighbouring query heads. With a `window` a token sees
    only the last `window` tokens, itself the newest. Returns [n, num_heads, head_dim], computed in
    float32 and cast to the type of `queries`.
    """
    distance = _distance(queries, keys)
    return _attention(queries, keys, values, scale, (distance >= 0) & _within(distance, window))


def run_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None = None
) -> Tensor:
    """The last n of m tokens attend to one another both ways, and to everything before them.

    As `causal_attention` otherwise; a `window` hides what came too long before and nothing after.
    """
    return _attention(queries, keys, values, scale, _within(_distance(queries, keys), window))


def full_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Every token attends to every token; all [n, num_heads, head_dim]."""
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys.float()) * scale
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values.float()).to(queries.dtype)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float, seen: Tensor) -> Tensor:
    """`seen` [n, m] says which query sees which key."""
    copies = queries.shape[1] // keys.shape[1]
    keys, values = (each.float().repeat_interleave(copies, 1) for each in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys) * scale
    scores.masked_fill_(~seen, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).to(queries.dtype)


def _distance(queries: Tensor, keys: Tensor) -> Tensor:
    """[n, m]: how many tokens a key stands before a query; negative behind it."""
    places = torch.arange(keys.shape[0], device=keys.device)
    return places[-queries.shape[0] :, None] - places


def _within(distance: Tensor, window: int | None) -> Tensor:
    return distance < (distance.shape[1] if window is None else window)
