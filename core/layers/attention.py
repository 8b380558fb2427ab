"""Softmax attention over all keys of a sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, FullAttentionSpec, LayerMemory
from core.layers.norm import RMSNorm
from core.layers.rope import Rotation
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import AttentionShape, OpenGateShape, RotationShape


class Attention:
    """o_proj(attention(q, k, v)), q and k normalised by `norm` and rotated by `rope`.

    `norm` is of each head, with `norm_all_heads` of all heads together.

    `rope` names one of the forward's rotations, by which `rotary_dim` numbers of a head rotate
    (default: all); queries may have another, `query_rope`. `scale` multiplies scores (default
    head_dim^-1/2). `gated`: each head's query rows are followed by as many gate rows; the result is
    multiplied by sigmoid(gate). `head_gate` names a projection to one such gate for each head.
    `both_ways`: tokens of one picture also see later ones. `value_norm`: values are normalised,
    without a weight. `keys_as_values`: values are the keys before norm and rotation. Layers with
    the same `shared_kv` use the keys and values of the first, `owns_kv`. With sinks in `shape`,
    each head has the score of one more key, which has no value. `input_norm` as in `JoinedLinear`.
    """

    def __init__(
        self,
        weights: Weights,
        width: int,
        shape: AttentionShape,
        *,
        rope: str | None = "full_attention",
        query_rope: str | None = None,
        rotary_dim: int | None = None,
        norm: type[RMSNorm] | None = None,
        norm_all_heads: bool = False,
        epsilon: float = 0.0,
        bias: bool = False,
        scale: float | None = None,
        gated: bool = False,
        head_gate: str | None = None,
        both_ways: bool = False,
        value_norm: bool = False,
        keys_as_values: bool = False,
        shared_kv: str | None = None,
        owns_kv: bool = True,
        input_norm: InputNorm | None = None,
    ) -> None:
        heads, kv_heads, head_dim = shape.heads, shape.kv_heads, shape.head_dim
        self.shape, self.rope, self.query_rope = shape, rope, query_rope or rope
        self.gated, self.head_gate, self.both_ways = gated, head_gate is not None, both_ways
        self.shared_kv, self.owns_kv = shared_kv, owns_kv
        self._ops = weights.ops(shape, RotationShape(heads, head_dim, rotary_dim or head_dim))
        if gated or head_gate:
            weights.ops(OpenGateShape(heads, head_dim))
        self.scale = head_dim**-0.5 if scale is None else scale
        own = (FullAttentionSpec(kv_heads, head_dim, weights.dtype, shape.window),)
        self.specs = own if owns_kv else ()
        query_width, kv_width = heads * head_dim, kv_heads * head_dim
        parts = [("q_proj", 2 * query_width if gated else query_width)]
        if owns_kv:
            names = ("k_proj",) if keys_as_values else ("k_proj", "v_proj")
            parts += [(name, kv_width) for name in names]
        if head_gate is not None:
            parts.append((head_gate, heads))
        self.projections = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        self.sinks = weights.tensor("sinks", (heads,), torch.float32) if shape.sinks else None
        self.output = Linear(weights, "o_proj", query_width, width, bias=bias)
        self._norm_all = norm_all_heads
        self.query_norm = self.key_norm = self.value_norm = None
        if norm is not None:
            widths = (query_width, kv_width) if norm_all_heads else (head_dim, head_dim)
            self.query_norm = norm(weights.scope("q_norm"), widths[0], epsilon)
            if owns_kv:
                self.key_norm = norm(weights.scope("k_norm"), widths[1], epsilon)
        if value_norm and self.key_norm is not None:
            self.value_norm = torch.ones_like(self.key_norm.scale), epsilon

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        memory, shape = forward.memory, self.shape
        queries, *others = self.projections(hidden, memory.is_step)
        if self._norm_all and self.query_norm and self.key_norm:
            queries, others[0] = self.query_norm(queries), self.key_norm(others[0])
        queries = queries.unflatten(1, (shape.heads, -1))
        gate = others.pop().unsqueeze(2) if self.head_gate else None
        if self.gated:
            queries, gate = queries.chunk(2, dim=-1)
        of_queries, of_keys = (
            forward.rotations[rope] if rope else None for rope in (self.query_rope, self.rope)
        )
        queries = self._rotated(queries, self.query_norm, of_queries)
        if self.owns_kv:
            heads = [each.unflatten(1, (shape.kv_heads, -1)) for each in others]
            keys, values = self._rotated(heads[0], self.key_norm, of_keys), heads[-1]
            if self.value_norm is not None:
                values = self._ops.rms_norm(values, *self.value_norm)
            rows = memory.extend_kv(slot, keys, values)
            if self.shared_kv is not None:
                forward.shared_kv[self.shared_kv] = rows
        else:
            assert self.shared_kv is not None
            rows = forward.shared_kv[self.shared_kv]
        attended = self._attend(queries, *rows, memory, forward.image)
        if gate is not None:
            attended = self._ops.open_gate(attended, gate)
        return self.output(attended.flatten(1), memory.is_step)

    def _rotated(self, heads: Tensor, norm: RMSNorm | None, rotation: Rotation | None) -> Tensor:
        norm = None if self._norm_all else norm
        if rotation is None:
            return heads if norm is None else norm(heads)
        if norm is None:
            return self._ops.rotate(heads, *rotation)
        return self._ops.norm_rotate(heads, norm.scale, norm.epsilon, *rotation)

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, memory: LayerMemory, image: bool
    ) -> Tensor:
        """`queries` [n, heads, head_dim], the last rows, over all `keys`."""
        limits, ops = (self.scale, self.shape.window, self.sinks), self._ops
        attend = ops.run_attention if image and self.both_ways else ops.causal_attention
        if memory.is_step:
            attend = ops.step_attention
        if memory.is_step or len(memory.runs) == 1:
            return attend(queries, keys, values, *limits)
        attended, end = [], keys.shape[0] - queries.shape[0]
        for run in queries.split(memory.runs):
            end += run.shape[0]
            attended.append(attend(run, keys[:end], values[:end], *limits))
        return torch.cat(attended)
