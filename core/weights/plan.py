"""Tensors of a model, found by building it once with stand-ins.

A family builds its layers from a `Weights` scope twice, without data and with it, so names, shapes
and types are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from core.weights.memory import CPU, FREED
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import Shape, TensorSpec, Use, WeightPlan
from core.weights.table import HeldTable, Table
from kernels.common.shapes import OpShape
from kernels.linear.blocks import BlockFormat, StoredRows
from kernels.linear.reference import (
    PLAIN,
    Matrix,
    PlainMatrix,
    QuantisedTensors,
    StackedMatrix,
    StoredFormat,
    WeightFormats,
)
from kernels.ops import PLAIN_OPS, Ops

T = TypeVar("T")


class StoredBlocks(NamedTuple):
    rows: StoredRows
    format: BlockFormat
    device: torch.device


Slices = list[QuantisedTensors]
"""The slices of a matrix, first row first, in a format of the model."""


Orders = Sequence[Callable[[], Tensor] | None]


class Source(Protocol):
    def tensor(self, name: str, spec: TensorSpec) -> Tensor: ...

    def matrix(self, name: str, spec: TensorSpec) -> Slices | StoredBlocks: ...

    def table(self, name: str, spec: TensorSpec) -> Table: ...


class Weights:
    """A scope of named tensors. `formats` is None while there is no data; `smoothed` are norms
    whose large scales migrate.

    Of all scopes together, `asked` has the tensors taken, by full name, `shapes` the sizes of
    operations, `joined` the tensors that are packed as one. `stored` gives the folder's shape of a
    full name: empty in a published format, None if absent.
    """

    def __init__(
        self,
        source: Source,
        dtype: torch.dtype,
        formats: WeightFormats | None = PLAIN,
        ops: Ops = PLAIN_OPS,
        smoothed: frozenset[str] = frozenset(),
    ) -> None:
        self.dtype = dtype
        self.shapes: set[OpShape] = set()
        self.asked: dict[str, TensorSpec] = {}
        self.joined: list[list[str]] = []
        self.stored: Callable[[str], Shape | None] = lambda name: None
        self._source = source
        self._formats, self._ops, self._smoothed = formats, ops, smoothed
        self._prefix = ""
        self._exact = self._invariant = False

    def scope(self, name: str, *, exact: bool = False) -> Weights:
        inner = Weights(self._source, self.dtype, self._formats, self._ops, self._smoothed)
        inner.asked, inner.joined = self.asked, self.joined
        inner.shapes, inner.stored = self.shapes, self.stored
        inner._prefix = f"{self._prefix}{name}."
        inner._exact, inner._invariant = self._exact or exact, self._invariant
        return inner

    def layers(self, kinds: Iterable[T]) -> Iterator[tuple[Weights, T]]:
        return ((self.scope(f"layers.{index}"), kind) for index, kind in enumerate(kinds))

    def exact(self) -> Weights:
        """Matrices that are never quantised and, unlike a tower's, batch invariant."""
        inner = self.scope("", exact=True)
        inner._prefix, inner._invariant = self._prefix, True
        return inner

    @property
    def batch_invariant(self) -> bool:
        return self._formats is not None and self._formats.batch_invariant == "always"

    @property
    def batch_invariant_steps(self) -> bool:
        """A step of a few rows has the bits of as many single steps."""
        if self._formats is None or self.dtype != torch.bfloat16:
            return False
        return self._formats.batch_invariant != "never"

    def ops(self, *shapes: OpShape) -> Ops:
        self.shapes.update(shapes)
        return self._ops

    def tensor(self, name: str, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        spec = self._note(name, TensorSpec(shape, dtype or self.dtype))
        return self._source.tensor(self._prefix + name, spec)

    def scale(self, name: str, width: int, offset: float) -> tuple[Tensor, InputNorm]:
        """A norm's factors, [width] float32: the tensor plus `offset`, without the scales that
        migrate into the matrices that follow."""
        scale = self.tensor(name, (width,), torch.float32)
        scale = scale + offset if offset else scale
        norm = InputNorm(self._prefix + name, offset)
        return (scale / migrating_scales(scale) if norm.name in self._smoothed else scale), norm

    def table(self, name: str, shape: Shape, *, in_file: bool = False) -> Table:
        spec = self._note(name, TensorSpec(shape, self.dtype, Use.TABLE, in_file=in_file))
        return self._source.table(self._prefix + name, spec)

    def matrix(
        self,
        parts: Sequence[tuple[str, int]],
        num_inputs: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        orders: Orders = (),
    ) -> Matrix:
        """One matrix of the scopes `parts` (name, outputs), one below the other.

        `input_norm` is the norm whose result the inputs are, if nothing else reads that. `orders`,
        for each part or None, are called once there is data: output i is the part's row order()[i],
        without bias.
        """
        groups: list[_Group] = []
        self.joined.append([f"{self._prefix}{name}.weight" for name, _ in parts])
        for index, (name, num_outputs) in enumerate(parts):
            scope = self.scope(name)
            found = scope._matrix_slices((num_outputs, num_inputs), input_norm)
            make = orders[index] if orders else None
            order = make() if make is not None and self._formats is not None else None
            weight_format = found.format if isinstance(found, StoredBlocks) else self._format
            if not groups or groups[-1].format != weight_format:
                groups.append(_Group(weight_format))
            groups[-1].add(found, order)
            if bias:
                groups[-1].biases.append(scope.tensor("bias", (num_outputs,)))
            del found
        if self._formats is None:
            return PlainMatrix(groups[0].slices[0][0])
        widths = [group.num_outputs for group in groups]
        matrices = [group.pack() for group in groups]
        return matrices[0] if len(matrices) == 1 else StackedMatrix(matrices, widths)

    def has(self, name: str) -> bool:
        return self.stored(self._prefix + name) is not None

    def transposed(self, stacks: Mapping[str, tuple[int, int]]) -> bool:
        """True if the folder has a layer's matrices (outputs, inputs) with inputs first, which
        those that aren't square show."""
        return any(
            (self.stored(self._prefix + name) or ())[1:] == shape[::-1] != shape
            for name, shape in stacks.items()
        )

    def matrices(
        self,
        count: int,
        parts: Sequence[tuple[str, int]],
        num_inputs: int,
        stack: str,
        *,
        input_norm: InputNorm | None = None,
        transposed: bool = False,
        bias: bool = False,
        order: Tensor | None = None,
    ) -> list[Matrix]:
        """`count` matrices of equal size: of the scopes 0, 1, .. as `matrix` makes them, or of the
        tensor `stack` [count, outputs, inputs] if the folder has it, or of a stack for each part;
        `transposed` swaps the last two axes. Of a stack, biases are the tensor `stack`_bias [count,
        outputs], and output i of a matrix is row `order`[i]."""
        if not self.has(stack) and all(self.has(name) for name, _ in parts):
            stacks = [
                self.matrices(
                    count, [part], num_inputs, part[0], input_norm=input_norm, bias=bias,
                    transposed=transposed,
                )
                for part in parts
            ]  # fmt: skip
            widths = [outputs for _, outputs in parts]
            return [StackedMatrix([*each], widths) for each in zip(*stacks, strict=True)]
        if not self.has(stack):
            scopes = (self.scope(f"{index}") for index in range(count))
            return [
                each.matrix(parts, num_inputs, bias=bias, input_norm=input_norm) for each in scopes
            ]
        num_outputs = sum(outputs for _, outputs in parts)
        biases: Sequence[Tensor | None] = [None] * count
        if bias:
            rows = self.tensor(f"{stack}_bias", (count, num_outputs))
            biases = (rows if order is None else rows[:, order.to(rows.device)]).unbind()
        spec = TensorSpec(
            (count * num_outputs, num_inputs),
            self.dtype,
            Use.MATRIX,
            self._exact,
            input_norm,
            count,
            transposed=transposed,
        )
        self.joined.append([self._prefix + stack])
        found = self._source.matrix(self._prefix + stack, self._note(stack, spec))
        if isinstance(found, StoredBlocks):
            each_part = found.rows.split(num_outputs)
            if order is not None:
                each_part = [each.in_order(order) for each in each_part]
            both = zip(each_part, biases, strict=True)
            return [found.format.pack_rows([each], one, found.device) for each, one in both]
        if self._formats is None:
            return [PlainMatrix(found[0][0][:num_outputs])] * count
        return _unstacked(found, num_outputs, self._formats.of(self._exact), biases, order)

    def packed(self, weight: Tensor, bias: Tensor | None = None) -> Matrix:
        """The exact matrix of a tensor that the file has in another shape."""
        if self._formats is None:
            return PlainMatrix(weight, bias)
        formats = self._formats
        weight_format = (self._invariant and formats.exact_invariant) or formats.exact
        return weight_format.prepack(weight_format.quantise(weight.contiguous()), bias)

    @property
    def _format(self) -> StoredFormat:
        formats = self._formats or PLAIN
        if self._invariant and formats.exact_invariant is not None:
            return formats.exact_invariant
        return formats.of(self._exact)

    def _matrix_slices(self, shape: Shape, input_norm: InputNorm | None) -> Slices | StoredBlocks:
        spec = TensorSpec(shape, self.dtype, Use.MATRIX, self._exact, input_norm)
        spec = self._note("weight", spec)
        return self._source.matrix(f"{self._prefix}weight", spec)

    def _note(self, name: str, spec: TensorSpec) -> TensorSpec:
        name = self._prefix + name
        before = self.asked.get(name)
        if before is not None:
            spec = replace(spec, use=before.use | spec.use)
        self.asked[name] = spec
        return spec

    @property
    def num_parameters(self) -> int:
        return sum(spec.num_elements for spec in self.asked.values())


def plan_weights(
    build: Callable[[Weights], object],
    dtype: torch.dtype,
    check: Callable[[str, TensorSpec], None] = lambda name, spec: None,
) -> WeightPlan:
    """`check` gets each tensor before `build` does, and may raise: layers compute with stand-ins of
    any size."""
    weights = Weights(_StandIns(check), dtype, formats=None)
    build(weights)
    return weights.asked


class _StandIns:
    def __init__(self, check: Callable[[str, TensorSpec], None]) -> None:
        self._check = check

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        self._check(name, spec)
        # One number seen from everywhere. Torch's meta device would do, but its first operation
        # imports 800 modules, sympy among them: 1.6 s and 65 MB.
        return torch.zeros((), dtype=spec.dtype).expand(spec.shape)

    def matrix(self, name: str, spec: TensorSpec) -> Slices:
        return [(self.tensor(name, spec),)]

    def table(self, name: str, spec: TensorSpec) -> Table:
        return HeldTable(self.tensor(name, spec))


def _joined(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def _num_bytes(kept: QuantisedTensors) -> int:
    return sum(each.nbytes for each in kept)


def _in_order(slices: list[QuantisedTensors], rows: Tensor) -> QuantisedTensors:
    parts = (_joined(list(each)) for each in zip(*slices, strict=True))
    return tuple(each[rows.to(each.device)] for each in parts)


@dataclass(slots=True)
class _Group:
    format: StoredFormat
    num_parts: int = 0
    slices: Slices = field(default_factory=list)
    rows: list[StoredRows] = field(default_factory=list)
    biases: list[Tensor] = field(default_factory=list)
    device: torch.device = CPU

    def add(self, found: Slices | StoredBlocks, order: Tensor | None) -> None:
        self.num_parts += 1
        if isinstance(found, StoredBlocks):
            rows, self.device = found.rows, found.device
            self.rows.append(rows if order is None else rows.in_order(order.cpu()))
        elif order is None:
            self.slices += found
        else:
            found[:] = [_in_order(found, order)]
            self.slices += found

    @property
    def num_outputs(self) -> int:
        stored = sum(rows.shape[0] for rows in self.rows)
        return stored + sum(kept[0].shape[0] for kept in self.slices)

    def pack(self) -> Matrix:
        if isinstance(self.format, BlockFormat):
            bias = _joined(self.biases) if self.biases else None
            return self.format.pack_rows(self.rows, bias, self.device)
        if len(self.slices) > self.num_parts:
            return _stacked(self.slices, self.biases, self.format)
        kept = tuple(_joined(list(each)) for each in zip(*self.slices, strict=True))
        self.slices.clear()  # frees the slices before the packed matrix is allocated
        matrix = self.format.prepack(kept, _joined(self.biases) if self.biases else None)
        freed = _num_bytes(kept)
        del kept
        FREED.add(freed)
        return matrix


def _stacked(
    slices: list[QuantisedTensors], biases: list[Tensor], weight_format: StoredFormat
) -> Matrix:
    """A matrix too large to be copied at once: each slice is packed and freed before the next."""
    matrices: list[Matrix] = []
    widths: list[int] = []
    bias, start = _joined(biases) if biases else None, 0
    slices.reverse()
    while slices:
        kept = slices.pop()
        widths.append(kept[0].shape[0])
        end = start + widths[-1]
        matrices.append(weight_format.prepack(kept, None if bias is None else bias[start:end]))
        start = end
        freed = _num_bytes(kept)
        del kept
        FREED.add(freed)
    return StackedMatrix(matrices, widths)


def _unstacked(
    slices: list[QuantisedTensors],
    num_outputs: int,
    weight_format: StoredFormat,
    biases: Sequence[Tensor | None],
    order: Tensor | None,
) -> list[Matrix]:
    matrices: list[Matrix] = []
    slices.reverse()
    while slices:
        kept = slices.pop()
        freed = _num_bytes(kept)
        split = [each.split(num_outputs) for each in kept]
        for part in zip(*split, strict=True):
            ordered = part if order is None else _in_order([part], order)
            matrices.append(weight_format.prepack(ordered, biases[len(matrices)]))
        del kept, split
        FREED.add(freed)
    return matrices
