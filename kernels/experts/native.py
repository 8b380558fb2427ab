"""Sparse experts on the compiled kernels: one call for all experts of a token or prompt.

A token's ids are read from memory, so a captured step can be replayed. A prompt's rows go through
GEMM, however few an expert has.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, get_num_threads

from kernels.common.memory import prefetch
from kernels.common.shapes import Routing
from kernels.common.trace import NotCapturableError
from kernels.experts.reference import Activation, ExpertBank, LoopedExperts, sorted_pairs
from kernels.linear.native import NativeBfloatMatrix, NativeMatrix, Product
from kernels.linear.reference import Matrix, PlainMatrix, StackedMatrix
from kernels.native.library import (
    MOST_NUMBERS,
    TYPES,
    Kernel,
    Library,
    address,
    in_rows,
    is_bfloat,
)

# Of native.c and linear/product.h.
MOST_CHOSEN = 64
_MOST_EXPERTS = 2**16
_WIDEST = 2**16  # inputs, of which products of 8-bit integers add up in 32 bits

Alike = Sequence[NativeMatrix]
"""A matrix of each expert, of one kind and size."""


class NativeExperts(ExpertBank):
    """`up` and `down` are a matrix of each expert, or several, one below the other."""

    def __init__(
        self,
        library: Library,
        up: Sequence[Alike],
        down: Sequence[Alike],
        activation: Activation,
        one_by_one: ExpertBank,
    ) -> None:
        self._up, self._down = _Banks(library, up), _Banks(library, down)
        self._activation, self._library = activation, library
        self._one_by_one = one_by_one

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        share = ids.shape[1]
        if self._up.mapped and self._library.stored is not None:
            raise NotCapturableError("experts that are read when they are needed")
        if self._up.mapped:
            chosen = ids.unique().tolist()
            self._up.prefetch(chosen)
            self._down.prefetch(chosen)
        widest = max(self._up.num_inputs, self._down.num_inputs)
        few = share * widest <= MOST_NUMBERS and share <= MOST_CHOSEN
        fits = hidden.shape[0] > 0 and self._up.takes(hidden.dtype)
        if is_step and few and fits:
            inner = self._activation(self._up(hidden, ids, share))
            return None, self._down(inner, ids, 1)
        if self._library.stored is not None:
            raise NotCapturableError("many rows through experts")
        if not (fits and self._up.compiled and self._down.compiled):
            return self._one_by_one(hidden, ids, is_step)
        order, places = sorted_pairs(ids)
        ascending = ids.flatten()[order]
        inner = self._activation(self._up(hidden[order // share], ascending, 1, many=True))
        return places, self._down(inner, ascending, 1, many=True)


class _Banks:
    def __init__(self, library: Library, parts: Sequence[Alike]) -> None:
        self._banks = [_Bank(library, each) for each in parts]
        self._widths = [bank.num_outputs for bank in self._banks]
        self.num_inputs = self._banks[0].num_inputs
        self.mapped = any(bank.mapped for bank in self._banks)
        self.compiled = all(bank.compiled for bank in self._banks)

    def takes(self, dtype: torch.dtype) -> bool:
        return all(bank.takes(dtype) for bank in self._banks)

    def prefetch(self, ids: Sequence[int]) -> None:
        """Read those that aren't in memory, all at once."""
        for bank in self._banks:
            bank.prefetch(ids)

    def __call__(self, inputs: Tensor, ids: Tensor, share: int, *, many: bool = False) -> Tensor:
        """Row r of the result is row r // share of `inputs` through expert `ids`[r]. `many`: `ids`
        ascend and `share` is 1; else as many at once as a step has."""
        inputs, ids = inputs.contiguous(), ids.contiguous().flatten()
        result = inputs.new_empty(ids.numel(), sum(self._widths))
        most = min(MOST_CHOSEN, MOST_NUMBERS // self.num_inputs) // share * share
        at_once = ids.numel() if many else most
        for first in range(0, ids.numel(), at_once):
            rows = slice(first, first + at_once)
            given = inputs[first // share : (first + at_once) // share]
            parts = result[rows].split(self._widths, dim=1)
            for bank, part in zip(self._banks, parts, strict=True):
                bank.multiply(part, given, ids[rows], share, many)
        return result


class _Bank:
    def __init__(self, library: Library, matrices: Alike) -> None:
        first = matrices[0]
        self._library, self._matrices = library, matrices
        self.mapped = any(each.mapped for each in matrices)
        self.num_outputs, self.num_inputs = first.shape
        self.compiled, self._widened = first.compiled, first.widened
        self._kernel, self._format, self._places = first.kernel, first.format, first.places
        self._weights = _table([each.weight for each in matrices])
        scales = [each.scales for each in matrices if each.scales is not None]
        self._scales = _table(scales) if scales else None
        biases = [each.bias for each in matrices if each.bias is not None]
        self._biases = _table(biases) if biases else None
        self._dtype = first.bias.dtype if first.bias is not None else None
        self._of_steps: Kernel = getattr(library, f"experts_{first.kernel}")
        self._of_many: Kernel = getattr(library, f"experts_{first.kernel}_many")

    def __del__(self) -> None:
        # As of a matrix: a late thread may still look where a weight lies.
        self._library.wait_idle()

    def takes(self, dtype: torch.dtype) -> bool:
        if self._dtype not in (None, dtype):
            return False
        return dtype == torch.bfloat16 or (dtype in TYPES and self._kernel != "bfloat")

    def prefetch(self, ids: Sequence[int]) -> None:
        for expert in ids:
            weight = self._matrices[expert].weight
            prefetch(weight.data_ptr(), weight.nbytes)

    def multiply(self, result: Tensor, inputs: Tensor, ids: Tensor, share: int, many: bool) -> None:
        kernel = self._of_many if many else self._of_steps
        kernel(
            *map(address, (inputs, self._weights, self._scales, self._biases, ids, result)),
            ids.numel(), share, self.num_outputs, self.num_inputs, inputs.shape[1],
            result.stride(0), inputs.dtype == torch.bfloat16, get_num_threads(), self._widened,
            self._format, address(self._places),
        )  # fmt: skip


def _table(tensors: Sequence[Tensor]) -> Tensor:
    return torch.tensor([each.data_ptr() for each in tensors], dtype=torch.int64)


def alike(matrices: Sequence[Matrix]) -> Alike | None:
    """None unless all matrices are the library's, of one kind and size."""
    native = [each for each in matrices if isinstance(each, NativeMatrix)]
    kinds = {
        (each.kernel, each.shape, each.widened, each.compiled, each.format, address(each.places),
         each.scales is None, each.bias is not None and each.bias.dtype)
        for each in native
    }  # fmt: skip
    whole = 0 < len(native) == len(matrices) <= _MOST_EXPERTS and len(kinds) == 1
    return native if whole and native[0].shape[1] <= _WIDEST else None


def _parts(matrices: Sequence[Matrix]) -> list[Alike] | None:
    """The matrices, or those that each is stacked of; None unless all are `alike`."""
    stacks = [each.matrices if isinstance(each, StackedMatrix) else [each] for each in matrices]
    if len({len(each) for each in stacks}) != 1:
        return None
    found = [alike(part) for part in zip(*stacks, strict=True)]
    return [part for part in found if part is not None] if None not in found else None


def make_bank(
    library: Library,
    widened: bool,
    up: Sequence[Matrix],
    down: Sequence[Matrix],
    activation: Activation,
) -> ExpertBank:
    """Compiled if all matrices are `alike`, or all first parts, all second ones, ..."""

    def native(matrix: Matrix) -> Matrix:
        if not isinstance(matrix, PlainMatrix) or not is_bfloat(matrix.weight):
            return matrix
        product: Product = "floats" if widened else "pairs"
        return NativeBfloatMatrix(library, matrix.weight.contiguous(), matrix.bias, product)

    up, down = list(map(native, up)), list(map(native, down))
    first, second = _parts(up), _parts(down)
    if first is None or second is None:
        return LoopedExperts(up, down, activation)
    return NativeExperts(library, first, second, activation, LoopedExperts(up, down, activation))


def route(
    library: Library,
    logits: Tensor,
    routing: Routing,
    correction: Tensor | None = None,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    k, groups, count = routing.k, routing.groups, logits.shape[1]
    whole = count % groups == 0 and (groups == 1 or count // groups > 1)
    open_groups = min(groups, routing.open_groups)
    few = 0 < k <= min(MOST_CHOSEN, count // groups * open_groups)
    if not (in_rows(logits) and whole and few and open_groups <= MOST_CHOSEN):
        return None
    ids = torch.empty(logits.shape[0], k, dtype=torch.int32)
    weights = torch.empty(logits.shape[0], k)
    library.route(
        *map(address, (logits, correction, factors, ids, weights)), *logits.shape, k,
        logits.stride(0),
        groups, open_groups, routing.scale, routing.normalise, routing.sigmoid,
        is_bfloat(logits), get_num_threads(),
    )  # fmt: skip
    return ids, weights


def weighted_sum(
    library: Library,
    places: Tensor | None,
    rows: Tensor,
    weights: Tensor,
    shared: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor | None:
    others = [each for each in (shared, gate) if each is not None]
    alike = all(each.dtype == rows.dtype for each in others) and len(others) != 1
    dense = all(each.is_contiguous() for each in (rows, weights, *others[:1]))
    if not (alike and dense and rows.dtype in TYPES):
        return None
    result = torch.empty(weights.shape[0], rows.shape[1], dtype=rows.dtype)
    library.weighted_sum(
        *map(address, (rows, places, weights, shared, gate, result)), *weights.shape,
        rows.shape[1], gate.stride(0) if gate is not None else 0, is_bfloat(rows),
        get_num_threads(),
    )  # fmt: skip
    return result
