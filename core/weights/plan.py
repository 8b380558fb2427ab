"""Tensors of a model, found by building it once with stand-ins.

A family builds its layers from a `Weights` scope twice, without data and with it, so names, shapes
and types are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from core.weights.packing import Group, Slices, StoredBlocks, unstacked
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import Shape, TensorSpec, Use, WeightPlan
from core.weights.table import HeldTable, Table
from kernels.common.shapes import OpShape
from kernels.linear.reference import (
    PLAIN,
    Matrix,
    PlainMatrix,
    StackedMatrix,
    StoredFormat,
    WeightFormats,
)
from kernels.ops import PLAIN_OPS, Ops

T = TypeVar("T")


Orders = Sequence[Callable[[], Tensor] | None]


class Source(Protocol):
    def tensor(self, name: str, spec: TensorSpec) -> Tensor: ...

    def matrix(self, name: str, spec: TensorSpec) -> Slices | StoredBlocks: ...

    def table(self, name: str, spec: TensorSpec) -> Table: ...


class Weights:
    """A scope of named tensors. `formats` is None while there is no data; `smoothed` are norms
    whose large scales migrate.

    Of all scopes together, `asked` has the tensors by full name, `shapes` the sizes of operations,
    `joined` the tensors that are packed as one. `stored` gives the folder's shape of a full name:
    empty in a published format, None if absent.
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
        """[width] float32: the tensor plus `offset`, without scales that migrate into later
        matrices."""
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
        groups: list[Group] = []
        self.joined.append([f"{self._prefix}{name}.weight" for name, _ in parts])
        for index, (name, num_outputs) in enumerate(parts):
            scope = self.scope(name)
            found = scope._matrix_slices((num_outputs, num_inputs), input_norm)
            make = orders[index] if orders else None
            order = make() if make is not None and self._formats is not None else None
            weight_format = found.format if isinstance(found, StoredBlocks) else self._format
            if not groups or groups[-1].format != weight_format:
                groups.append(Group(weight_format))
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
        """True if matrices (outputs, inputs) are stored inputs first, which those that aren't
        square show."""
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
        """`count` matrices of equal size: of scopes 0, 1, .. as by `matrix`, or of the tensor
        `stack` [count, outputs, inputs] if the folder has it, or of a stack for each part;
        `transposed` swaps the last two axes. Of a stack, biases are `stack`_bias [count, outputs],
        and output i is row `order`[i]."""
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
        return unstacked(found, num_outputs, self._formats.of(self._exact), biases, order)

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
    """Every tensor that `build` takes, in that order. `check` gets each before `build` does, and
    may raise: layers compute with stand-ins of any size."""
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
