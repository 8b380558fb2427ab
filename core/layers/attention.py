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
from kernels.common.shapes import AttentionShape, NormShape, OpenGateShape, RotationShape
from kernels.linear.reference import Matrix
from kernels.ops import Attend, Ops


class Attention:
    """o_proj(attention(q, k, v)), q and k normalised by `norm`, each head or with `norm_all_heads`
    all together, and rotated by `rope`.

    `rope` names one of the forward's rotations, of `rotary_dim` numbers of a head (default: all);
    queries may have another, `query_rope`. `scale` multiplies scores (default head_dim^-1/2).
    `gated`: each head's query rows are followed by gate rows; `head_gate` names a projection to one
    gate a head; sigmoid(gate) multiplies the result. `both_ways`: tokens of a picture also see
    later ones. `value_norm`: values are normalised, without a weight. `keys_as_values`: values are
    the keys before norm and rotation. Layers with one `shared_kv` use the keys and values of the
    first, `owns_kv`. With sinks in `shape`, each head has the score of one more key, without a
    value.
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
        own = (FullAttentionSpec(kv_heads, head_dim, weights.dtype, window=shape.window),)
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
        attend = self._ops.run_attention if forward.image and self.both_ways else None
        limits = (self.scale, shape.window, self.sinks)
        attended = attended_rows(self._ops, queries, rows, memory, limits, attend)
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


class LatentAttention:
    """Attention without positions to one latent row per token (MLA: DeepSeek-V2, arXiv:2405.04434,
    section 2.1).

    A stored row is a normalised latent of `rank` numbers, from which all heads' keys and values are
    projected, and `shared` numbers of every head's key. Both projections are absorbed: queries go
    through the keys' transposed, attend to the rows, and the result goes through the values'. A
    query's and a key's own part has `key_dim` numbers.
    """

    def __init__(
        self,
        weights: Weights,
        width: int,
        heads: int,
        *,
        rank: int,
        shared: int,
        key_dim: int,
        value_dim: int,
        epsilon: float,
        input_norm: InputNorm | None = None,
    ) -> None:
        row, query_dim = rank + shared, key_dim + shared
        self.heads, self.rank, self.value_dim, self.row = heads, rank, value_dim, row
        self.scale, self.epsilon = query_dim**-0.5, epsilon
        self._ops = weights.ops(AttentionShape(heads, 1, row), NormShape(rank, passed=shared))
        self.specs = (FullAttentionSpec(1, row, weights.dtype, latent=True),)
        parts = [("q_proj", heads * query_dim), ("kv_a_proj_with_mqa", row)]
        self.projections = JoinedLinear(weights, parts, width, input_norm=input_norm)
        self.norm = weights.tensor("kv_a_layernorm.weight", (rank,), torch.float32)
        if weights.has("k_b_proj.weight"):  # some folders have both apart, one of them transposed
            keys = weights.tensor("k_b_proj.weight", (heads, rank, key_dim))
            values = weights.tensor("v_b_proj.weight", (heads, value_dim, rank))
        else:
            both = weights.tensor("kv_b_proj.weight", (heads * (key_dim + value_dim), rank))
            keys, values = both.unflatten(0, (heads, -1)).split((key_dim, value_dim), dim=1)
            keys = keys.mT
        exact = weights.exact()
        # The shared numbers go through as they are: ones on a diagonal below the keys'.
        ones = torch.eye(shared, dtype=keys.dtype, device=keys.device)
        self.to_latent = [exact.packed(torch.block_diag(each, ones)) for each in keys]
        self.from_latent = [exact.packed(each) for each in values]
        self.output = Linear(weights, "o_proj", heads * value_dim, width)

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        memory, is_step = forward.memory, forward.memory.is_step
        queries, rows = self.projections(hidden, is_step)
        rows = self._ops.rms_norm(rows, self.norm, self.epsilon).unsqueeze(1)
        (latents,) = memory.extend_kv(slot, rows)
        queries = queries.unflatten(1, (self.heads, -1))
        queries = _each_head(self.to_latent, queries, self.row, is_step)
        limits = (self.scale, None, None)
        found = attended_rows(self._ops, queries, (latents, latents), memory, limits)
        values = _each_head(self.from_latent, found[..., : self.rank], self.value_dim, is_step)
        return self.output(values.flatten(1), is_step)


def _each_head(matrices: list[Matrix], inputs: Tensor, width: int, is_step: bool) -> Tensor:
    """`inputs` [n, heads, m], each head through its matrix: [n, heads, width]. Tokens of a step go
    one by one: a head's numbers are then adjacent, and a captured step can't copy them."""
    result = inputs.new_empty(*inputs.shape[:2], width)
    at_once = 1 if is_step else max(1, len(inputs))
    for given, to in zip(inputs.split(at_once), result.split(at_once), strict=True):
        for head, matrix in enumerate(matrices):
            matrix.into(to[:, head], given[:, head], is_step)
    return result


def attended_rows(
    ops: Ops,
    queries: Tensor,
    rows: tuple[Tensor, ...],
    memory: LayerMemory,
    limits: tuple[float, int | None, Tensor | None],
    attend: Attend | None = None,
) -> Tensor:
    """`queries` [n, heads, head_dim], the last rows, over all `rows`; `attend` is causal unless
    given. `limits` are its scale, window and sinks."""
    keys, values = rows
    attend = ops.step_attention if memory.is_step else attend or ops.causal_attention
    if memory.is_step or len(memory.runs) == 1:
        return attend(queries, keys, values, *limits)
    attended, end = [], keys.shape[0] - queries.shape[0]
    for run in queries.split(memory.runs):
        end += run.shape[0]
        attended.append(attend(run, keys[:end], values[:end], *limits))
    return torch.cat(attended)
