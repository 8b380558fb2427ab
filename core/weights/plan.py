"""Which tensors a model is made of, found out by building it once without any data.

A family builds its layers from a `Weights` scope. The first time every tensor it asks for is noted
and answered by a stand-in without data; the notes are the `WeightPlan` that the reader fills. The
second time the answers are the tensors just read. So names, shapes and types are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from core.weights.memory import FREED
from core.weights.packing import apart, held_bytes, joined, stacked
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import Shape, TensorSpec, Use, WeightPlan
from core.weights.table import HeldTable, Table
from kernels.common.shapes import OpShape
from kernels.linear.reference import (
    PLAIN,
    Matrix,
    PlainMatrix,
    QuantisedTensors,
    WeightFormats,
)
from kernels.ops import PLAIN_OPS, Ops


class Source(Protocol):
    """Where a model's tensors come from, by full name."""

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        """The whole tensor."""
        ...

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        """What is held of its rows, from the first to the last; whoever asks owns it."""
        ...

    def table(self, name: str, spec: TensorSpec) -> Table:
        """Its rows."""
        ...


class Weights:
    """A scope of named tensors, from which a layer takes its own.

    `source` answers for a full name and what is expected of it; `dtype` is the model's type;
    `formats` make matrices, None where there is no data yet; `ops` are what else the layer calls.
    `smoothed` are the norms whose large scales migrate (core.weights.smoothing).
    `asked` notes every tensor taken in any scope, by full name, `shapes` what is called with which
    sizes. `stored` is the shape in which the folder has a tensor of a full name, empty in a
    published format, None if it has none: where there are several ways to spell one.
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
        self.stored: Callable[[str], Shape | None] = lambda name: None
        self._source = source
        self._formats, self._ops, self._smoothed = formats, ops, smoothed
        self._prefix = ""
        self._exact = self._invariant = False

    def scope(self, name: str, *, exact: bool = False) -> Weights:
        """The tensors whose names go on after `name` and a dot; not quantised if `exact`."""
        inner = Weights(self._source, self.dtype, self._formats, self._ops, self._smoothed)
        inner.asked, inner.shapes, inner.stored = self.asked, self.shapes, self.stored
        inner._prefix = f"{self._prefix}{name}."
        inner._exact, inner._invariant = self._exact or exact, self._invariant
        return inner

    def exact(self) -> Weights:
        """The same tensors, of which no matrix is quantised, for rows of tokens: in a tower, where
        a picture comes whole, rows may depend on one another as they don't here."""
        inner = self.scope("", exact=True)
        inner._prefix, inner._invariant = self._prefix, True
        return inner

    @property
    def batch_invariant(self) -> bool:
        """Whether a row has the same bits however many rows share a call."""
        return self._formats is not None and self._formats.batch_invariant == "always"

    @property
    def batch_invariant_steps(self) -> bool:
        """Whether a step of a few rows has the bits of as many steps of one."""
        if self._formats is None or self.dtype != torch.bfloat16:
            return False
        return self._formats.batch_invariant != "never"

    def ops(self, *shapes: OpShape) -> Ops:
        """What a layer calls with numbers of these `shapes`."""
        self.shapes.update(shapes)
        return self._ops

    def tensor(self, name: str, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """The tensor of this name, in the model's type unless `dtype` says otherwise."""
        spec = self._note(name, TensorSpec(shape, dtype or self.dtype))
        return self._source.tensor(self._prefix + name, spec)

    def scale(self, name: str, width: int, offset: float) -> tuple[Tensor, InputNorm]:
        """What a norm multiplies its channels by, [width] float32: the tensor of this name plus
        `offset`, without what migrates into the matrices that have it as their input norm."""
        scale = self.tensor(name, (width,), torch.float32)
        scale = scale + offset if offset else scale
        norm = InputNorm(self._prefix + name, offset)
        return (scale / migrating_scales(scale) if norm.name in self._smoothed else scale), norm

    def table(self, name: str, shape: Shape) -> Table:
        """The tensor of this name, of which single rows are looked up."""
        spec = self._note(name, TensorSpec(shape, self.dtype, Use.TABLE))
        return self._source.table(self._prefix + name, spec)

    def matrix(
        self,
        parts: Sequence[tuple[str, int]],
        num_inputs: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        order: Callable[[], Tensor] | None = None,
    ) -> Matrix:
        """One matrix of the scopes `parts`, each a name and its outputs, one below the other.

        Maps of the same inputs are one map: each row is read once, in fewer calls. `input_norm` is
        the norm whose result the inputs are, if nothing else reads that. With an `order`, which is
        asked for once there is data, output i is that of row order()[i]; there is no bias then.
        """
        slices: list[QuantisedTensors] = []
        biases = []
        for name, num_outputs in parts:
            scope = self.scope(name)
            slices += scope._matrix_slices((num_outputs, num_inputs), input_norm)
            if bias:
                biases.append(scope.tensor("bias", (num_outputs,)))
        if self._formats is None:
            return PlainMatrix(slices[0][0])
        weight_format = self._formats.of(self._exact)
        if self._invariant and self._formats.exact_invariant is not None:
            weight_format = self._formats.exact_invariant
        if len(slices) > len(parts) and order is None:
            return stacked(slices, biases, weight_format)
        kept = tuple(joined(list(each)) for each in zip(*slices, strict=True))
        if order is not None:  # of every tensor that is held, rows are outputs
            rows = order()
            kept = tuple(each[rows.to(each.device)] for each in kept)
        slices.clear()  # what was joined goes before what is packed of it comes
        matrix = weight_format.prepack(kept, joined(biases) if biases else None)
        gone = held_bytes(kept)
        del kept
        FREED.add(gone)  # or what comes next is laid beside what has gone
        return matrix

    def transposed(self, stacks: Mapping[str, tuple[int, int]]) -> bool:
        """Whether the folder has the matrices (outputs, inputs) of these tensors with inputs before
        outputs. A square one doesn't tell: all of a layer are stored in one way."""
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
    ) -> list[Matrix]:
        """`count` matrices of equal size, as `matrix` makes them of the scopes 0, 1, ..; or, where
        the folder has it, of the tensor `stack` [count, outputs, inputs], in which inputs come
        before outputs if `transposed`."""
        stored = self.stored(self._prefix + stack)
        if stored is None:
            scopes = (self.scope(f"{index}") for index in range(count))
            return [each.matrix(parts, num_inputs, input_norm=input_norm) for each in scopes]
        num_outputs = sum(outputs for _, outputs in parts)
        spec = TensorSpec(
            (count * num_outputs, num_inputs),
            self.dtype,
            Use.MATRIX,
            self._exact,
            input_norm,
            count,
            transposed=transposed,
        )
        slices = self._source.matrix(self._prefix + stack, self._note(stack, spec))
        if self._formats is None:
            return [PlainMatrix(slices[0][0][:num_outputs])] * count
        return apart(slices, num_outputs, self._formats.of(self._exact))

    def packed(self, weight: Tensor, bias: Tensor | None = None) -> Matrix:
        """The exact matrix of a tensor that the file has in another shape: [outputs, inputs]."""
        if self._formats is None:
            return PlainMatrix(weight, bias)
        weight_format = self._formats.exact
        return weight_format.prepack(weight_format.quantise(weight.contiguous()), bias)

    def _matrix_slices(self, shape: Shape, input_norm: InputNorm | None) -> list[QuantisedTensors]:
        spec = TensorSpec(shape, self.dtype, Use.MATRIX, self._exact, input_norm)
        spec = self._note("weight", spec)
        return self._source.matrix(f"{self._prefix}weight", spec)

    def _note(self, name: str, spec: TensorSpec) -> TensorSpec:
        """Remember what is asked; a tensor may be asked for twice for different uses."""
        name = self._prefix + name
        before = self.asked.get(name)
        if before is not None:
            spec = replace(spec, use=before.use | spec.use)
        self.asked[name] = spec
        return spec

    @property
    def num_parameters(self) -> int:
        """Numbers in all tensors asked for so far, in any scope."""
        return sum(spec.num_elements for spec in self.asked.values())


def plan_weights(
    build: Callable[[Weights], object],
    dtype: torch.dtype,
    check: Callable[[str, TensorSpec], None] = lambda name, spec: None,
) -> WeightPlan:
    """Every tensor that `build` asks for, in the order of asking.

    `check` is told of each before it is answered, and may raise: layers reckon with the stand-ins,
    and results of any size would be allocated.
    """
    weights = Weights(_StandIns(check), dtype, formats=None)
    build(weights)
    return weights.asked


class _StandIns:
    """Answers every question that passes `check`, without any data."""

    def __init__(self, check: Callable[[str, TensorSpec], None]) -> None:
        self._check = check

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        self._check(name, spec)
        # One number seen from everywhere. Torch's meta device would do, but its first operation
        # imports 800 modules, sympy among them: 1.6 s and 65 MB.
        return torch.zeros((), dtype=spec.dtype).expand(spec.shape)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        return [(self.tensor(name, spec),)]

    def table(self, name: str, spec: TensorSpec) -> Table:
        return HeldTable(self.tensor(name, spec))
