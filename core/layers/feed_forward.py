"""Feed-forward layers: dense ones and sparse experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from core.layers.linear import JoinedLinear, Linear
from core.layers.norm import RMSNorm
from core.layers.runs import in_row_blocks
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, GateShape, SquaredReluShape, SumShape
from kernels.experts.reference import ExpertBank, gated

FeedForward = Callable[[Tensor, bool], Tensor]
"""[n, width] -> [n, width]; the flag is `LayerMemory.is_step`."""


class SwiGLU:
    """down(silu(m gate x) * up x), m being `gate_multiplier`; with `gelu` gelu's tanh form instead
    of silu. `names` are the published names of gate, up (or both in one matrix) and down."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        *,
        gelu: bool = False,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        gate_multiplier: float = 1.0,
        names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:
        *inner, down = names
        parts = [(name, 2 * inner_width // len(inner)) for name in inner]
        self.gate_and_up = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        self.down = Linear(weights, down, inner_width, width, bias=bias)
        ops = weights.ops(GateShape(inner_width, gelu))
        swiglu = partial(ops.swiglu, multiplier=gate_multiplier)
        self._product = ops.geglu if gelu else swiglu
        self._numbers = 3 * inner_width

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, self._numbers)

    def _block(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        outputs = self.gate_and_up(hidden, is_step)
        gate, up = outputs if len(outputs) == 2 else outputs[0].chunk(2, dim=1)
        return self.down(self._product(gate, up), is_step)


class SquaredReluMLP:
    """down(relu(up x)^2) (arXiv:2109.08668)."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        out_width: int | None = None,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
    ) -> None:
        parts = [("up_proj", inner_width)]
        self.up = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        self.down = Linear(weights, "down_proj", inner_width, out_width or width, bias=bias)
        self._squared_relu = weights.ops(SquaredReluShape(inner_width)).squared_relu
        self._numbers = 2 * inner_width

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, self._numbers)

    def _block(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        (inner,) = self.up(hidden, is_step)
        return self.down(self._squared_relu(inner), is_step)


class GeluMLP:
    """fc2(gelu(fc1 x)), for vision towers. `approximate` is torch's."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        out_width: int,
        approximate: str,
        names: tuple[str, str] = ("linear_fc1", "linear_fc2"),
        *,
        bias: bool = True,
    ) -> None:
        first, second = names
        self.first = Linear(weights, first, width, inner_width, bias=bias)
        self.second = Linear(weights, second, inner_width, out_width, bias=bias)
        self._gelu: Callable[[Tensor], Tensor] = F.gelu
        if approximate == "tanh":
            self._gelu = weights.ops(GateShape(inner_width, gelu=True)).gelu
        self._numbers = 2 * inner_width

    def __call__(self, hidden: Tensor) -> Tensor:
        return in_row_blocks(self._block, hidden, self._numbers)

    def _block(self, hidden: Tensor) -> Tensor:
        return self.second(self._gelu(self.first(hidden)))


class SparseExperts:
    """`router` and the gate of a shared expert are never quantised. `shared` is the inner width of
    an expert that every token goes through, multiplied by that gate. `latent`: experts read and
    return a projection to fewer numbers. `norms`: the layer normalises its input itself, for router
    and experts. `factors` [experts] multiply the experts' weights. With biases in `shape` the
    router has one too. `interleaved`: each gate is published before what it opens, not all before
    all."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        shape: ExpertShape,
        *,
        input_norm: InputNorm | None = None,
        router: str = "gate",
        shared: int = 0,
        latent: bool = False,
        norms: tuple[RMSNorm, RMSNorm] | None = None,
        factors: Tensor | None = None,
        interleaved: bool = False,
    ) -> None:
        self.shape, self._factors, self.norms = shape, factors, norms
        self._interleaved = interleaved
        self._ops = weights.ops(shape)
        deciding = [(router, shape.count)]
        if shared:
            deciding.append(("shared_expert_gate", 1))
        self.router = JoinedLinear(
            weights.exact(), deciding, width, bias=shape.bias, input_norm=input_norm
        )
        self._correction = None
        if shape.routing.sigmoid:
            name = "e_score_correction_bias"
            correction = weights.scope(router).tensor(name, (shape.count,), torch.float32)
            # Experts can't be sorted by NaN: such an expert becomes the first or the last.
            self._correction = correction.nan_to_num()
        self.into = self.back = None
        if latent:
            parts = [("fc1_latent_proj", shape.width)]
            self.into = JoinedLinear(weights, parts, width, input_norm=input_norm)
            self.back = Linear(weights, "fc2_latent_proj", shape.width, width)
            input_norm = None
        self.bank = self._bank(weights.scope("experts"), input_norm)
        self.shared = None
        if shared:
            scope = weights.scope("shared_expert")
            self.shared = SwiGLU(scope, width, shared, input_norm=input_norm)

    def _bank(self, weights: Weights, input_norm: InputNorm | None) -> ExpertBank:
        inner, width, ops, clamp = self.shape.inner, self.shape.width, self._ops, self.shape.clamp
        if self.shape.gated:
            weights.ops(GateShape(inner, self.shape.gelu, clamp))
            parts, stack = [("gate_proj", inner), ("up_proj", inner)], "gate_up_proj"
            activation = gated(ops.geglu if self.shape.gelu else ops.swiglu)
            if clamp is not None:
                slope, limit = clamp
                activation = gated(lambda gate, up: ops.clamped_swiglu(gate, up, slope, limit))
        else:
            weights.ops(SquaredReluShape(inner))
            parts, stack, activation = [("up_proj", inner)], "up_proj", ops.squared_relu
        shapes = {stack: (len(parts) * inner, width), "down_proj": (width, inner)}
        make = partial(
            weights.matrices,
            self.shape.count,
            transposed=weights.transposed(shapes),
            bias=self.shape.bias,
        )
        order = torch.arange(2 * inner).view(-1, 2).T.flatten() if self._interleaved else None
        return ops.experts(
            make(parts, width, stack, input_norm=input_norm, order=order),
            make([("down_proj", width)], inner, "down_proj"),
            activation,
        )

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        shape = self.shape
        # For each of a token's experts: its input, three inner rows, its output.
        numbers = shape.routing.k * (3 * shape.inner + 2 * shape.width)
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, numbers)

    def _block(self, hidden: Tensor, is_step: bool) -> Tensor:
        decided = hidden
        if self.norms is not None:
            decided, hidden = (norm(hidden) for norm in self.norms)
        logits, *gates = self.router(decided, is_step)
        routing = self.shape.routing, self._correction, self._factors
        ids, weights = self._ops.route(logits, *routing)
        given = self.into(hidden, is_step)[0] if self.into else hidden
        places, rows = self.bank(given, ids, is_step)
        if self.shared is None:
            total = self._ops.weighted_sum(places, rows, weights, None, None)
            return self.back(total, is_step) if self.back else total
        shared = self.shared(hidden, is_step)
        return self._ops.weighted_sum(places, rows, weights, shared, gates[0])


class WithShared:
    def __init__(self, weights: Weights, width: int, sparse: FeedForward, shared: FeedForward):
        self.sparse, self.shared = sparse, shared
        self._add = weights.ops(SumShape(width)).add

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        return self._add(self.sparse(hidden, is_step), self.shared(hidden, is_step))


class DenseAndSparse:
    def __init__(
        self,
        weights: Weights,
        width: int,
        dense: tuple[RMSNorm, FeedForward, RMSNorm],
        sparse: tuple[FeedForward, RMSNorm],
    ) -> None:
        self.dense, self.sparse = dense, sparse
        self._add = weights.ops(SumShape(width)).add

    def __call__(self, hidden: Tensor, is_step: bool) -> Tensor:
        before, dense, after = self.dense
        sparse, after_sparse = self.sparse
        fed = after(dense(before(hidden), is_step))
        return self._add(fed, after_sparse(sparse(hidden, is_step)))
