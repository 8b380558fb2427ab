"""Attention with keys that grow by the run: plain or windowed, with normalised heads, gated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import FullAttentionSpec, LayerMemory
from core.layers.norm import RMSNorm, ZeroCentredRMSNorm
from core.layers.rope import Rotation
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import AttentionShape, OpenGateShape, RotationShape


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Width of the layer, and its heads, of which `rotary_dim` numbers turn: all if it is None."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int | None = None

    @property
    def rotation(self) -> RotationShape:
        """As kernels want to know it."""
        width = self.head_dim if self.rotary_dim is None else self.rotary_dim
        return RotationShape(self.heads, self.head_dim, width)


HeadNorm = Callable[[Weights], RMSNorm]
"""Makes the norm over the head_dim numbers of every head."""


class Attention:
    """o_proj(attention(q, k, v)); q and k are rotated, and before that normalised by `norm`.

    `scale` multiplies the scores, head_dim^-1/2 unless it is given. With a `window` a token sees
    only the last `window` tokens; all keys are kept all the same, so that any cut can be restored.
    `input_norm` as in `JoinedLinear`.
    """

    # Numbers that the query projection gives for each of a head's dimensions.
    query_parts = 1

    def __init__(
        self,
        weights: Weights,
        sizes: AttentionSizes,
        norm: HeadNorm | None,
        *,
        bias: bool,
        scale: float | None = None,
        window: int | None = None,
        input_norm: InputNorm | None = None,
    ) -> None:
        hidden_size, head_dim = sizes.hidden, sizes.head_dim
        width, kv_width = sizes.heads * head_dim, sizes.kv_heads * head_dim
        self.sizes, self.window = sizes, window
        shape = AttentionShape(sizes.heads, sizes.kv_heads, head_dim, window)
        self._ops = weights.ops(shape, sizes.rotation)
        self.scale = head_dim**-0.5 if scale is None else scale
        self.spec = FullAttentionSpec(sizes.kv_heads, head_dim, weights.dtype)
        parts = [("q_proj", self.query_parts * width), ("k_proj", kv_width), ("v_proj", kv_width)]
        self.projections = JoinedLinear(
            weights, parts, hidden_size, bias=bias, input_norm=input_norm
        )
        self.output = Linear(weights, "o_proj", width, hidden_size, bias=bias)
        self.query_norm = norm(weights.scope("q_norm")) if norm is not None else None
        self.key_norm = norm(weights.scope("k_norm")) if norm is not None else None

    def __call__(
        self,
        hidden: Tensor,
        rotation: Rotation | None,
        memory: LayerMemory,
        layer: int,
        *,
        both_ways: bool = False,
    ) -> Tensor:
        """`hidden` [n, hidden_size], normalised -> [n, hidden_size].

        `both_ways`: its tokens also see those of them that follow. Without a `rotation` they know
        their order by what other layers remember.
        """
        queries, keys, values = self._heads(hidden, memory.is_step)
        attended = self._attend(queries, keys, values, rotation, memory, layer, both_ways)
        return self.output(attended.flatten(1), memory.is_step)

    def _heads(self, hidden: Tensor, is_step: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [n, heads, query_parts * head_dim], keys and values [n, kv_heads, head_dim]."""
        queries, keys, values = self.projections(hidden, is_step)
        kv_heads = (self.sizes.kv_heads, -1)
        keys, values = keys.unflatten(1, kv_heads), values.unflatten(1, kv_heads)
        return queries.unflatten(1, (self.sizes.heads, -1)), keys, values

    def _attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        rotation: Rotation | None,
        memory: LayerMemory,
        layer: int,
        both_ways: bool,
    ) -> Tensor:
        """`queries` [n, heads, head_dim] over all keys, `keys` the last; the same shape."""
        ops = self._ops
        queries = self._rotated(queries, self.query_norm, rotation)
        keys = self._rotated(keys, self.key_norm, rotation)
        all_keys, all_values = memory.extend_kv(layer, keys, values)
        attend = ops.run_attention if both_ways else ops.causal_attention
        if memory.is_step:
            attend = ops.step_attention
        if memory.is_step or len(memory.runs) == 1:
            return attend(queries, all_keys, all_values, self.scale, self.window)
        attended, end = [], all_keys.shape[0] - queries.shape[0]
        for run in queries.split(memory.runs):
            end += run.shape[0]
            attended.append(attend(run, all_keys[:end], all_values[:end], self.scale, self.window))
        return torch.cat(attended)

    def _rotated(self, heads: Tensor, norm: RMSNorm | None, rotation: Rotation | None) -> Tensor:
        if rotation is None:
            return heads if norm is None else norm(heads)
        if norm is None:
            return self._ops.rotate(heads, *rotation)
        return self._ops.norm_rotate(heads, norm.scale, norm.epsilon, *rotation)


class GatedAttention(Attention):
    """o_proj(attention(q, k, v) * sigmoid(gate)), q and k normalised per head before RoPE.

    The query projection holds head_dim query rows, then head_dim gate rows, for each head.
    """

    query_parts = 2

    def __init__(
        self,
        weights: Weights,
        sizes: AttentionSizes,
        epsilon: float,
        *,
        bias: bool,
        input_norm: InputNorm | None = None,
    ) -> None:
        def norm(scope: Weights) -> ZeroCentredRMSNorm:
            return ZeroCentredRMSNorm(scope, sizes.head_dim, epsilon)

        super().__init__(weights, sizes, norm, bias=bias, input_norm=input_norm)
        self._open = weights.ops(OpenGateShape(sizes.heads, sizes.head_dim)).open_gate

    def __call__(
        self,
        hidden: Tensor,
        rotation: Rotation | None,
        memory: LayerMemory,
        layer: int,
        *,
        both_ways: bool = False,
    ) -> Tensor:
        """As `Attention`."""
        doubled, keys, values = self._heads(hidden, memory.is_step)
        queries, gate = doubled.chunk(2, dim=-1)
        attended = self._attend(queries, keys, values, rotation, memory, layer, both_ways)
        return self.output(self._open(attended, gate).flatten(1), memory.is_step)
