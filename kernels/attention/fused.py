"""Grouped causal attention over torch's fused scaled_dot_product_attention, on any device.

Knows two things that the fused op does not: the group of query heads that share a key head is
folded into the query axis (on a CPU its own grouping repeats the keys: 85 ms against 8 ms for one
token over 8,192 keys), and its `is_causal` counts from the first key, not from the last.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

# Queries of one call, group included. A mask over 16,384 keys is then 32 MB in float32; all the
# queries of a picture at once would take 16 GB.
_FOLDED_ROWS = 512


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """As `reference.causal_attention`; the blocks depend on the shapes alone."""
    num_queries, num_heads, _ = queries.shape
    before, group = keys.shape[0] - num_queries, num_heads // keys.shape[1]
    rows = max(1, _FOLDED_ROWS // group)
    blocks = []
    for start in range(0, num_queries, rows):
        block = queries[start : start + rows]
        seen = before + start + block.shape[0]
        blocks.append(_attend(block, keys[:seen], values[:seen], scale))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def full_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """As `reference.full_attention`."""
    queries, keys, values = (each.transpose(0, 1)[None] for each in (queries, keys, values))
    attended = F.scaled_dot_product_attention(queries, keys, values, scale=scale)
    return attended.squeeze(0).transpose(0, 1)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """One block of queries, the last of which sees every key."""
    num_queries, num_heads, head_dim = queries.shape
    num_kv_heads = keys.shape[1]
    group = num_heads // num_kv_heads
    folded = queries.reshape(num_queries, num_kv_heads, group, head_dim)
    folded = folded.permute(1, 2, 0, 3).flatten(1, 2)
    attended = F.scaled_dot_product_attention(
        folded[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=_mask(num_queries, keys.shape[0], group, queries),
        scale=scale,
    )
    unfolded = attended.reshape(num_kv_heads, group, num_queries, head_dim)
    return unfolded.permute(2, 0, 1, 3).flatten(1, 2)


def _mask(num_queries: int, num_keys: int, group: int, like: Tensor) -> Tensor | None:
    """[group * num_queries, num_keys], -inf where a key comes after the query."""
    if num_queries == 1:
        return None
    mask = like.new_full((num_queries, num_keys), float("-inf"))
    return mask.triu_(num_keys - num_queries + 1).repeat(group, 1)
