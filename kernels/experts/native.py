"""Sparse experts on the compiled kernels: one call for all experts of a token or prompt.

A token reads each of its experts' weights once (GEMV); their ids are read from memory, so a
captured step can be replayed. A prompt's rows are sorted by expert and go through GEMM, however few
rows an expert has.
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
from kernels.linear.reference import Matrix, PlainMatrix
from kernels.native.library import MOST_NUMBERS, TYPES, Library, address, in_rows, is_bfloat

# Of native.c and linear/product.h.
MOST_CHOSEN = 64
_MOST_EXPERTS = 2**16
_WIDEST = 2**16  # inputs, of which products of 8-bit integers add up in 32 bits
_KERNELS = {
    "linear_bfloat": "experts_bfloat",
    "linear_int8": "experts_int8",
    "linear_int4": "experts_int4",
    "linear_blocks": "experts_blocks",
}


class NativeExperts(ExpertBank):
    def __init__(
        self,
        library: Library,
        up: Sequence[NativeMatrix],
        down: Sequence[NativeMatrix],
        activation: Activation,
    ) -> None:
        self._up, self._down = _Bank(library, up), _Bank(library, down)
        self._activation, self._library = activation, library
        self._one_by_one = LoopedExperts(up, down, activation)

    def __call__(
        self, hidden: Tensor, ids: Tensor, is_step: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        share, num_rows = ids.shape[1], ids.numel()
        if self._up.mapped and self._library.stored is not None:
            raise NotCapturableError("experts that are read when they are needed")
        if self._up.mapped:
            chosen = ids.unique().tolist()
            self._up.prefetch(chosen)
            self._down.prefetch(chosen)
        widest = max(self._up.num_inputs, self._down.num_inputs)
        few = num_rows * widest <= MOST_NUMBERS and num_rows <= MOST_CHOSEN
        fits = hidden.shape[0] > 0 and self._up.takes(hidden.dtype)
        if is_step and few and fits:
            inner = self._activation(self._up.of_steps(hidden, ids, share))
            return None, self._down.of_steps(inner, ids, 1)
        if self._library.stored is not None:
            raise NotCapturableError("many rows through experts")
        if not (fits and self._up.compiled and self._down.compiled):
            return self._one_by_one(hidden, ids, is_step)
        order, places = sorted_pairs(ids)
        ascending = ids.flatten()[order]
        inner = self._activation(self._up.of_many(hidden[order // share], ascending))
        return places, self._down.of_many(inner, ascending)


class _Bank:
    def __init__(self, library: Library, matrices: Sequence[NativeMatrix]) -> None:
        first = matrices[0]
        self._library, self._matrices = library, matrices
        self.mapped = any(each.mapped for each in matrices)
        self._outputs, self.num_inputs = first.shape
        self.compiled, self._widened = first.compiled, first.widened
        self._kernel, self._format, self._places = first.kernel, first.format, first.places
        self._weights = _table([each.weight for each in matrices])
        scales = [each.scales for each in matrices if each.scales is not None]
        self._scales = _table(scales) if scales else None
        biases = [each.bias for each in matrices if each.bias is not None]
        self._biases = _table(biases) if biases else None
        self._dtype = first.bias.dtype if first.bias is not None else None
        self._of_steps = getattr(library, _KERNELS[first.kernel])
        self._of_many = getattr(library, f"{_KERNELS[first.kernel]}_many")

    def __del__(self) -> None:
        # As of a matrix: a late thread may still look where a weight lies.
        self._library.wait_idle()

    def takes(self, dtype: torch.dtype) -> bool:
        if self._dtype not in (None, dtype):
            return False
        return dtype == torch.bfloat16 or (dtype in TYPES and self._kernel != "linear_bfloat")

    def prefetch(self, ids: Sequence[int]) -> None:
        """Read those of these experts that aren't in memory, all at once."""
        for expert in ids:
            weight = self._matrices[expert].weight
            prefetch(weight.data_ptr(), weight.nbytes)

    def of_steps(self, inputs: Tensor, ids: Tensor, share: int) -> Tensor:
        """Row r of the result is row r // share of `inputs` through expert `ids`[r]."""
        return self._multiply(self._of_steps, inputs, ids, share)

    def of_many(self, inputs: Tensor, ids: Tensor) -> Tensor:
        """Each row of `inputs` through its expert; `ids` ascend."""
        return self._multiply(self._of_many, inputs, ids, 1)

    def _multiply(self, kernel: object, inputs: Tensor, ids: Tensor, share: int) -> Tensor:
        assert callable(kernel)
        inputs, ids = inputs.contiguous(), ids.contiguous()
        result = inputs.new_empty(ids.numel(), self._outputs)
        kernel(
            *map(address, (inputs, self._weights, self._scales, self._biases, ids, result)),
            ids.numel(), share, self._outputs, self.num_inputs, inputs.shape[1],
            inputs.dtype == torch.bfloat16, get_num_threads(), self._widened, self._format,
            address(self._places),
        )  # fmt: skip
        return result


def _table(tensors: Sequence[Tensor]) -> Tensor:
    return torch.tensor([each.data_ptr() for each in tensors], dtype=torch.int64)


def alike(matrices: Sequence[Matrix]) -> Sequence[NativeMatrix] | None:
    """None unless all matrices are the library's, of one kind and size."""
    native = [each for each in matrices if isinstance(each, NativeMatrix)]
    kinds = {
        (each.kernel, each.shape, each.widened, each.compiled, each.format, address(each.places),
         each.bias is not None and each.bias.dtype)
        for each in native
    }  # fmt: skip
    whole = 0 < len(native) == len(matrices) <= _MOST_EXPERTS and len(kinds) == 1
    return native if whole and native[0].shape[1] <= _WIDEST else None


def make_bank(
    library: Library,
    widened: bool,
    up: Sequence[Matrix],
    down: Sequence[Matrix],
    activation: Activation,
) -> ExpertBank:
    """Compiled if all matrices are `alike`."""

    def native(matrix: Matrix) -> Matrix:
        if not isinstance(matrix, PlainMatrix) or not is_bfloat(matrix.weight):
            return matrix
        product: Product = "floats" if widened else "pairs"
        return NativeBfloatMatrix(library, matrix.weight.contiguous(), matrix.bias, product)

    first, second = (alike(list(map(native, each))) for each in (up, down))
    if first is None or second is None:
        return LoopedExperts(up, down, activation)
    return NativeExperts(library, first, second, activation)


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
