"""What was read of a model, by published name, until the model is built from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from core.weights.memory import FREED
from core.weights.spec import TensorSpec, Use
from core.weights.table import HeldTable, Table
from kernels.linear.reference import QuantisedTensors, WeightFormat


@dataclass(frozen=True, slots=True)
class ReadWeights:
    """The tensors of a model by published name, matrices as they are held: a `Source`.

    `quantised` is told what is held of each matrix that may be quantised, slice by slice.
    """

    quantised: Callable[[str, QuantisedTensors], None] = lambda name, kept: None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    matrices: dict[str, list[QuantisedTensors]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        """See Source (core.weights.plan)."""
        return self.tensors.pop(name)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        """See Source."""
        return self.matrices.pop(name)

    def table(self, name: str, spec: TensorSpec) -> Table:
        """See Source."""
        return self.tables.pop(name)

    def add(self, name: str, spec: TensorSpec, tensor: Tensor, weight_format: WeightFormat) -> None:
        """Hold a whole tensor for what it is used for, but for a table that is there already."""
        if Use.TENSOR in spec.use:
            self.tensors[name] = tensor
        if Use.TABLE in spec.use:
            self.tables.setdefault(name, HeldTable(tensor))
        if Use.MATRIX in spec.use:
            self.hold(name, spec, weight_format.quantise(tensor))
            if not weight_format.is_plain:
                FREED.add(tensor.nbytes)  # the floats on the way

    def hold(self, name: str, spec: TensorSpec, kept: QuantisedTensors) -> None:
        """Hold what a format made of the next rows of a matrix."""
        self.matrices.setdefault(name, []).append(kept)
        if not spec.exact:
            self.quantised(name, kept)
