"""Grouped attention over torch's fused scaled_dot_product_attention, on any device.

Query heads that share a key head are folded into the query axis; on a CPU the fused op would repeat
the keys (85 ms against 8 ms for one token over 8,192 keys). Masks are built here, because its
`is_causal` counts from the first key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Queries of one call, group included. A mask over 16,384 keys is then 32 MB in float32; all the
# queries of a picture at once would take 16 GB.
_FOLDED_ROWS = 512


def each_alone(
    attend: Callable[..., Tensor],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *limits: Any,
) -> Tensor:
    """`attend` of one query after the other; `limits` are scale, window and sinks."""
    ends = range(keys.shape[0] - queries.shape[0] + 1, keys.shape[0] + 1)
    found = [
        attend(query, keys[:end], values[:end], *limits)
        for query, end in zip(queries.split(1), ends, strict=True)
    ]
    return found[0] if len(found) == 1 else torch.cat(found)


def full_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    queries, keys, values = (each.transpose(0, 1)[None] for each in (queries, keys, values))
    attended = F.scaled_dot_product_attention(queries, keys, values, scale=scale)
    return attended.squeeze(0).transpose(0, 1)


def _in_blocks(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
    *,
    causal: bool,
) -> Tensor:
    num_queries, num_heads, _ = queries.shape
    before, group = keys.shape[0] - num_queries, num_heads // keys.shape[1]
    rows = max(1, _FOLDED_ROWS // group)
    blocks = []
    for start in range(0, num_queries, rows):
        block = queries[start : start + rows]
        place = before + start  # of the block's first query among the keys
        end = place + block.shape[0] if causal else keys.shape[0]
        first = max(0, place + 1 - window) if window is not None else 0
        mask = _mask(block, place - first, end - first, group, window, causal=causal)
        seen_keys, seen_values = keys[first:end], values[first:end]
        if sinks is not None:
            seen_keys, seen_values, mask = _with_sinks(block, seen_keys, seen_values, sinks, mask)
        blocks.append(_attend(block, seen_keys, seen_values, scale, mask))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


causal_attention = partial(_in_blocks, causal=True)
step_attention = partial(each_alone, causal_attention)
"""Like `causal_attention` of each query separately."""
run_attention = partial(_in_blocks, causal=False)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None
) -> Tensor:
    num_queries, num_heads, head_dim = queries.shape
    num_kv_heads = keys.shape[1]
    group = num_heads // num_kv_heads
    folded = queries.reshape(num_queries, num_kv_heads, group, head_dim)
    folded = folded.permute(1, 2, 0, 3).flatten(1, 2)
    attended = F.scaled_dot_product_attention(
        folded[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=mask,
        scale=scale,
    )
    unfolded = attended.reshape(num_kv_heads, group, num_queries, head_dim)
    return unfolded.permute(2, 0, 1, 3).flatten(1, 2)


def _with_sinks(
    queries: Tensor, keys: Tensor, values: Tensor, sinks: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One more key and value of zeros, whose score is each head's sink."""
    num_queries, num_kv_heads = queries.shape[0], keys.shape[1]
    rows = sinks.to(queries.dtype).view(num_kv_heads, -1, 1).repeat_interleave(num_queries, 1)
    if mask is None:
        mask = queries.new_zeros(rows.shape[1], keys.shape[0])
    mask = torch.cat((mask.expand(num_kv_heads, -1, -1), rows), 2)
    none = keys.new_zeros(1, *keys.shape[1:])
    return torch.cat((keys, none)), torch.cat((values, none)), mask[None]


def _mask(
    queries: Tensor, place: int, num_keys: int, group: int, window: int | None, *, causal: bool
) -> Tensor | None:
    """[group * num_queries, num_keys], -inf where a key is hidden; None if none is. `place` is the
    index of the first query among the keys."""
    num_queries = queries.shape[0]
    later = causal and num_queries > 1
    earlier = window is not None and place + num_queries > window
    if not (later or earlier):
        return None
    mask = queries.new_zeros(num_queries, num_keys)
    if later:
        mask = queries.new_full((num_queries, num_keys), float("-inf")).triu_(place + 1)
    if earlier and window is not None:
        hidden = queries.new_full((num_queries, num_keys), float("-inf")).tril_(place - window)
        mask += hidden
    return mask.repeat(group, 1)
