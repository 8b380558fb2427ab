"""Grouped attention in plain torch: softmax(Q K^T scale) V. For tests: it allocates every score."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """The last n of m tokens attend to themselves and everything before them.

    `queries` [n, num_heads, head_dim]; `keys`, `values` [m, num_kv_heads, head_dim], m >= n. Each
    key head serves num_heads / num_kv_heads neighbouring query heads. A `window` counts the token
    itself. `sinks` [num_heads], float32, are scores of one more key of each head, which has no
    value. Computed in float32.
    """
    distance = _distance(queries, keys)
    return _attention(
        queries, keys, values, scale, (distance >= 0) & _within(distance, window), sinks
    )


def run_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """The last n of m tokens attend to one another both ways, and to everything before them.

    A `window` hides keys too far back, and none that follow.
    """
    return _attention(
        queries, keys, values, scale, _within(_distance(queries, keys), window), sinks
    )


def full_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys.float()) * scale
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values.float()).to(queries.dtype)


def _attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    seen: Tensor,
    sinks: Tensor | None,
) -> Tensor:
    """`seen` [n, m]: which query sees which key."""
    copies = queries.shape[1] // keys.shape[1]
    keys, values = (each.float().repeat_interleave(copies, 1) for each in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries.float(), keys) * scale
    scores.masked_fill_(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat((scores, sinks.view(-1, 1, 1).expand(-1, scores.shape[1], 1)), 2)
    weights = scores.softmax(-1)[..., : keys.shape[0]]
    return torch.einsum("hqk,khd->qhd", weights, values).to(queries.dtype)


def _distance(queries: Tensor, keys: Tensor) -> Tensor:
    """[n, m]: how many tokens a key precedes a query; negative if it follows."""
    places = torch.arange(keys.shape[0], device=keys.device)
    return places[-queries.shape[0] :, None] - places


def _within(distance: Tensor, window: int | None) -> Tensor:
    return distance < (distance.shape[1] if window is None else window)
