"""Which tensors a model is made of, found out by building it once without any data.

A family builds its layers from a `Weights` scope. The first time every tensor it asks for is noted
and answered by a stand-in without data; the notes are the `WeightPlan` that the reader fills. The
second time the answers are the tensors just read. So names, shapes and types are written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import WrongShapeError
from kernels.linear.reference import Matrix, PlainMatrix

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape of a tensor and the type it has once loaded."""

    shape: Shape
    dtype: torch.dtype

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.num_elements * self.dtype.itemsize


WeightPlan = Mapping[str, TensorSpec]
Packer = Callable[[Tensor, Tensor | None], Matrix]
"""From a weight [outputs, inputs] and its bias to the form that a kernel reads."""


class Weights:
    """A scope of named tensors, from which a layer takes its own.

    `lookup` answers for a full name and what is expected of it; `dtype` is the model's type; `pack`
    makes matrices of weights, None where there is no data yet. `asked` notes every tensor taken in
    any scope, by full name.
    """

    def __init__(
        self,
        lookup: Callable[[str, TensorSpec], Tensor],
        dtype: torch.dtype,
        pack: Packer | None = PlainMatrix,
    ) -> None:
        self.dtype = dtype
        self.asked: dict[str, TensorSpec] = {}
        self._lookup = lookup
        self._pack = pack
        self._prefix = ""

    def scope(self, name: str) -> Weights:
        """The tensors whose names go on after `name` and a dot."""
        inner = Weights(self._lookup, self.dtype, self._pack)
        inner.asked, inner._prefix = self.asked, f"{self._prefix}{name}."
        return inner

    def tensor(self, name: str, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """The tensor of this name, in the model's type unless `dtype` says otherwise."""
        spec = TensorSpec(shape, dtype or self.dtype)
        self.asked[self._prefix + name] = spec
        return self._lookup(self._prefix + name, spec)

    def matrix(
        self, parts: Sequence[tuple[str, int]], num_inputs: int, *, bias: bool = False
    ) -> Matrix:
        """One matrix of the scopes `parts`, each a name and its outputs, one below the other.

        Maps of the same inputs are one map: each row is read once, in fewer calls.
        """
        scopes = [(self.scope(name), num_outputs) for name, num_outputs in parts]
        weights = [scope.tensor("weight", (rows, num_inputs)) for scope, rows in scopes]
        biases = [scope.tensor("bias", (rows,)) for scope, rows in scopes if bias]
        if self._pack is None:
            return PlainMatrix(weights[0])
        weight, joined_bias = _stacked(weights), _stacked(biases) if biases else None
        weights.clear()  # what was joined goes before what is packed of it comes
        return self._pack(weight, joined_bias)

    @property
    def num_parameters(self) -> int:
        """Numbers in all tensors asked for so far, in any scope."""
        return sum(spec.num_elements for spec in self.asked.values())


def _stacked(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def plan_weights(
    build: Callable[[Weights], object], dtype: torch.dtype, limit: float = math.inf
) -> WeightPlan:
    """Every tensor that `build` asks for, in the order of asking.

    Raises WrongShapeError as soon as they hold more than `limit` numbers together: layers reckon
    with the stand-ins, and results of any size would be allocated.
    """
    left = limit

    def stand_in(name: str, spec: TensorSpec) -> Tensor:
        nonlocal left
        left -= spec.num_elements
        if left < 0:
            raise WrongShapeError(
                f"By config.json the model is larger than its weights files: {name} would be "
                f"{list(spec.shape)}."
            )
        # One number seen from everywhere. Torch's meta device would do, but its first operation
        # imports 800 modules, sympy among them: 1.6 s and 65 MB.
        return torch.zeros((), dtype=spec.dtype).expand(spec.shape)

    weights = Weights(stand_in, dtype, pack=None)
    build(weights)
    return weights.asked


def planned_bytes(plan: WeightPlan) -> int:
    """Bytes that the planned tensors take once loaded."""
    return sum(spec.num_bytes for spec in plan.values())
