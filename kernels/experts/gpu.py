"""Sparse experts in Triton: routing, and products whose weights depend on the row.

A tile's expert and the address of its weights are read on the device, so a step can be captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.shapes import Routing
from kernels.experts.gpu_parts import rows_of_groups, rows_of_numbers, step_of_groups
from kernels.experts.reference import Activation, ExpertBank, LoopedExperts, sorted_pairs
from kernels.experts.reference import route as plain_route
from kernels.linear.gpu import STEP
from kernels.linear.gpu_formats import GpuMatrix
from kernels.linear.gpu_parts import KINDS, constants
from kernels.linear.reference import Matrix, PlainMatrix

_ROWS = 16  # of a tile: the fewest that a dot takes
_OUTPUTS = 16  # of one program, and so the most programs
_INPUTS = 128  # of one step over a row
_AT_ONCE = 512  # numbers of a row that one program adds up
_MOST_EXPERTS = 1024  # of a row of logits that one program holds


class _Tiles(NamedTuple):
    """For each tile its expert, first row and end; for each row the index of its inputs."""

    expert: Tensor
    first: Tensor
    end: Tensor
    source: Tensor


def route(
    logits: Tensor,
    routing: Routing,
    correction: Tensor | None = None,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`reference.route` serves experts in groups."""
    (rows, count), k = logits.shape, routing.k
    fits = logits.stride(1) == 1 and 0 < k <= count <= _MOST_EXPERTS and routing.groups == 1
    if not fits:
        return plain_route(logits, routing, correction, factors)
    corrected = correction if routing.sigmoid else None
    ids = torch.empty(rows, k, dtype=torch.int32, device=logits.device)
    weights = torch.empty(rows, k, device=logits.device)
    _route[(rows,)](
        logits, logits if corrected is None else corrected.contiguous(), ids, weights, count,
        logits.stride(0), routing.scale,
        K=k, EXPERTS=triton.next_power_of_2(count), NORMALISE=routing.normalise,
        SIGMOID=routing.sigmoid, CORRECTED=corrected is not None, num_warps=1,
    )  # fmt: skip
    return ids, weights if factors is None else weights * factors[ids]


@triton.jit
def _route(
    logits: tl.tensor,
    correction: tl.tensor,
    ids: tl.tensor,
    weights: tl.tensor,
    count: int,
    stride: int,
    scale: float,
    K: tl.constexpr,
    EXPERTS: tl.constexpr,
    NORMALISE: tl.constexpr,
    SIGMOID: tl.constexpr,
    CORRECTED: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, EXPERTS)
    there = expert < count
    lowest = float("-inf")
    given = tl.load(logits + row * stride + expert, there, lowest).to(tl.float32)
    given = tl.where(given >= lowest, given, lowest)  # NaN is not
    if SIGMOID:
        scores, rank = tl.sigmoid(given), tl.sigmoid(given)
    else:
        scores, rank = tl.exp(given - tl.max(given, 0)), given
    scores = tl.where(there, scores, 0.0)
    if CORRECTED:
        rank += tl.load(correction + expert, there, 0.0)
    left = there
    for _ in tl.static_range(K):
        best = tl.max(tl.where(left, rank, lowest), 0)
        chosen = tl.min(tl.where(left & (rank == best), expert, EXPERTS), 0)
        left = left & (expert != chosen)
    taken = there & ~left
    if NORMALISE:
        scores = scores / (tl.sum(tl.where(taken, scores, 0.0), 0) + 1e-20)
    elif not SIGMOID:
        scores = scores / tl.sum(scores, 0)
    place = row * K + tl.cumsum(taken.to(tl.int32), 0) - 1
    tl.store(ids + place, expert, taken)
    tl.store(weights + place, scores * scale, taken)


def weighted_sum(
    places: Tensor | None,
    rows: Tensor,
    weights: Tensor,
    shared: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    tokens, k = weights.shape
    width, is_shared = rows.shape[1], shared is not None and gate is not None
    result = torch.empty(tokens, width, dtype=rows.dtype, device=rows.device)
    _weighted_sum[(tokens, triton.cdiv(width, _AT_ONCE))](
        rows.contiguous(), rows if places is None else places, weights.contiguous(),
        rows if shared is None else shared.contiguous(), rows if gate is None else gate, result,
        width, 0 if gate is None else gate.stride(0),
        K=k, SORTED=places is not None, SHARED=is_shared, AT_ONCE=_AT_ONCE, num_warps=4,
    )  # fmt: skip
    return result


@triton.jit
def _weighted_sum(
    rows: tl.tensor,
    places: tl.tensor,
    weights: tl.tensor,
    shared: tl.tensor,
    gate: tl.tensor,
    result: tl.tensor,
    width: int,
    gate_stride: int,
    K: tl.constexpr,
    SORTED: tl.constexpr,
    SHARED: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * AT_ONCE + tl.arange(0, AT_ONCE)
    there = column < width
    total = tl.zeros([AT_ONCE], tl.float32)
    for choice in tl.static_range(K):
        pair = token * K + choice
        row = tl.load(places + pair) if SORTED else pair
        given = tl.load(rows + row * width + column, there, 0.0).to(tl.float32)
        total += given * tl.load(weights + pair)
    if SHARED:
        opened = tl.sigmoid(tl.load(gate + token * gate_stride).to(tl.float32))
        total += tl.load(shared + token * width + column, there, 0.0).to(tl.float32) * opened
    tl.store(result + token * width + column, total.to(result.dtype.element_ty), there)


class GpuExperts(ExpertBank):
    """One launch a product."""

    def __init__(
        self, up: Sequence[Matrix], down: Sequence[Matrix], activation: Activation
    ) -> None:
        self._up, self._down, self._activation = _Bank(up), _Bank(down), activation
        self._of_steps: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        if hidden.shape[0] == 1:
            tiles, own = self._tiles_of_one(ids)
            inner = self._inner(self._up.step(hidden, tiles))
            return None, self._down.step(inner, own)
        order, places = sorted_pairs(ids)
        tiles, own = _tiles_of_many(ids.flatten()[order], order // ids.shape[1], len(self._down))
        inner = self._inner(self._up.times(hidden, tiles, order.shape[0]))
        return places, self._down.times(inner, own, order.shape[0])

    def _inner(self, rows: Tensor) -> Tensor:
        return self._activation(rows).contiguous()

    def _tiles_of_one(self, ids: Tensor) -> tuple[_Tiles, _Tiles]:
        """The constant part is made once, before capture."""
        k = ids.shape[1]
        if k not in self._of_steps:
            first = torch.arange(k + 1, device=ids.device)
            self._of_steps[k] = first, torch.zeros_like(first)
        first, none = self._of_steps[k]
        shared = _Tiles(ids.flatten(), first, first[1:], none)
        return shared, shared._replace(source=first)


def _tiles_of_many(ids: Tensor, source: Tensor, count: int) -> tuple[_Tiles, _Tiles]:
    """For ascending `ids`; some tiles may be empty."""
    experts = torch.arange(count + 1, dtype=ids.dtype, device=ids.device)
    starts = torch.searchsorted(ids.contiguous(), experts)  # of the rows of each expert
    tiles = (starts.diff() + _ROWS - 1) // _ROWS
    ends = tiles.cumsum(0)
    number = torch.arange(ids.shape[0] // _ROWS + count, device=ids.device)
    expert = torch.searchsorted(ends, number, right=True).clamp(max=count - 1)
    first = starts[expert] + (number - (ends - tiles)[expert]) * _ROWS
    # Tiles behind the last one are those of the last expert, behind its rows: they are empty.
    whose = _Tiles(expert, first, starts[expert + 1], source)
    own = torch.arange(ids.shape[0], device=ids.device)
    return whose, whose._replace(source=own)


class _Bank:
    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self._held = [_held(matrix) for matrix in matrices]
        first = self._held[0]
        assert first is not None
        self._kind, self._shape = first.kind, first.shape
        held = [each.tensors for each in self._held if each is not None]
        tables = [_table(tensors) for tensors in zip(*held, strict=True)]
        self._tables = (tables + tables[-1:] * 2)[:3]
        biases = [each.bias for each in self._held if each is not None and each.bias is not None]
        self._biased = bool(biases)
        self._biases = _table(biases) if biases else tables[0]

    def __len__(self) -> int:
        return len(self._held)

    def step(self, inputs: Tensor, tiles: _Tiles) -> Tensor:
        """`times` for tiles of one row."""
        num_rows, (outputs, num_inputs) = tiles.expert.shape[0], self._shape
        if self._kind not in KINDS:
            return self.times(inputs, tiles, num_rows)
        result = torch.empty(num_rows, outputs, dtype=inputs.dtype, device=inputs.device)
        step_of_groups[(triton.cdiv(outputs, STEP["OUTPUTS"]), num_rows)](
            inputs, *self._tables, self._biases, result, tiles.expert, tiles.source, outputs,
            num_inputs, inputs.shape[1], inputs.stride(0),
            BIASED=self._biased, **STEP, **constants(self._kind),
        )  # fmt: skip
        return result

    def times(self, inputs: Tensor, tiles: _Tiles, num_rows: int) -> Tensor:
        """Row r of the result is `inputs`[`tiles.source`[r]] through its tile's expert."""
        outputs, num_inputs = self._shape
        result = torch.empty(num_rows, outputs, dtype=inputs.dtype, device=inputs.device)
        grid = (tiles.expert.shape[0], triton.cdiv(outputs, _OUTPUTS))
        given = (result, *tiles, outputs, num_inputs)
        rows = inputs.shape[1], inputs.stride(0)
        stages = 1 if inputs.dtype == torch.float32 else 3
        sizes: dict[str, Any] = {"ROWS": _ROWS, "OUTPUTS": _OUTPUTS}
        sizes |= {"BIASED": self._biased, "num_warps": 2, "num_stages": stages}
        if self._kind in KINDS:
            sizes |= constants(self._kind)
            rows_of_groups[grid](inputs, *self._tables, self._biases, *given, *rows, **sizes)
        else:
            sizes |= {"INPUTS": _INPUTS}
            rows_of_numbers[grid](inputs, self._tables[0], self._biases, *given, *rows, **sizes)
        return result


class _Held(NamedTuple):
    """`shape` is outputs, and inputs as stored."""

    kind: str
    tensors: tuple[Tensor, ...]
    shape: tuple[int, int]
    bias: Tensor | None


def _table(tensors: Sequence[Tensor]) -> Tensor:
    places = [each.data_ptr() for each in tensors]
    return torch.tensor(places, dtype=torch.int64, device=tensors[0].device)


def _held(matrix: Matrix) -> _Held | None:
    """None for what no kernel reads."""
    if isinstance(matrix, PlainMatrix):
        weight, bias = matrix.weight, matrix.bias
        shape = (weight.shape[0], weight.shape[1])
        return _Held("floats", (weight,), shape, bias) if weight.is_contiguous() else None
    if isinstance(matrix, GpuMatrix) and matrix.columns is None:
        held, bias = matrix.weight, matrix.bias
        return _Held(held.kind, held.tensors, held.shape, bias)
    return None


def experts(up: Sequence[Matrix], down: Sequence[Matrix], activation: Activation) -> ExpertBank:
    """`LoopedExperts` if the kernels don't read such matrices."""
    for matrices in (up, down):
        held = [_held(each) for each in matrices]
        kinds = {
            (each.kind, each.shape, each.tensors[0].dtype, each.bias is None)
            for each in held
            if each
        }
        if None in held or len(kinds) != 1:
            return LoopedExperts(up, down, activation)
    return GpuExperts(up, down, activation)
