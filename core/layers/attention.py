"""Full attention whose output is gated by the query projection, with keys that grow by the run."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.cache.specs import FullAttentionSpec, LayerMemory
from core.layers.linear import Linear
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import Rotation
from core.weights.plan import Weights
from kernels.attention.fused import causal_attention
from kernels.rope.reference import rotate


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Width of the layer, and its heads."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int


class GatedAttention:
    """o_proj(attention(q, k, v) * sigmoid(gate)), q and k normalised per head before RoPE.

    The query projection holds head_dim query rows, then head_dim gate rows, for each head.
    """

    def __init__(
        self, weights: Weights, sizes: AttentionSizes, epsilon: float, *, bias: bool
    ) -> None:
        hidden_size, head_dim = sizes.hidden, sizes.head_dim
        width, kv_width = sizes.heads * head_dim, sizes.kv_heads * head_dim
        self.sizes = sizes
        self.spec = FullAttentionSpec(sizes.kv_heads, head_dim, weights.dtype)
        self.queries = Linear(weights.scope("q_proj"), hidden_size, 2 * width, bias=bias)
        self.keys = Linear(weights.scope("k_proj"), hidden_size, kv_width, bias=bias)
        self.values = Linear(weights.scope("v_proj"), hidden_size, kv_width, bias=bias)
        self.output = Linear(weights.scope("o_proj"), width, hidden_size, bias=bias)
        self.query_norm = ZeroCentredRMSNorm(weights.scope("q_norm"), head_dim, epsilon)
        self.key_norm = ZeroCentredRMSNorm(weights.scope("k_norm"), head_dim, epsilon)

    def __call__(
        self, hidden: Tensor, rotation: Rotation, memory: LayerMemory, layer: int
    ) -> Tensor:
        """`hidden` [n, hidden_size], normalised -> [n, hidden_size]."""
        num_tokens, head_dim = hidden.shape[0], self.sizes.head_dim
        doubled = self.queries(hidden).view(num_tokens, self.sizes.heads, 2 * head_dim)
        queries, gate = doubled[..., :head_dim], doubled[..., head_dim:]
        queries = rotate(self.query_norm(queries), *rotation)
        keys = rotate(self.key_norm(self._heads(self.keys(hidden))), *rotation)
        values = self._heads(self.values(hidden))
        all_keys, all_values = memory.extend_kv(layer, keys, values)
        attended = causal_attention(queries, all_keys, all_values, head_dim**-0.5)
        return self.output(attended.flatten(1) * torch.sigmoid(gate.flatten(1)))

    def _heads(self, rows: Tensor) -> Tensor:
        return rows.view(-1, self.sizes.kv_heads, self.sizes.head_dim)
