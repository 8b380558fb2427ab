"""From bytes of weights files to tensors: what to read, where it goes, and what is needed early.

Two kinds of tensors are read out of turn: a norm whose scales migrate into an earlier matrix, and
the scales of a layer in a published format. When the turn of such a tensor comes, its bytes must be
the same, because only those are digested.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError, NotEnoughMemoryError
from core.weights.memory import FREED
from core.weights.published.packed import PackedLayer, PackedPlan
from core.weights.safetensors_file import DTYPES, WeightsFile
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import TensorSpec, Use, WeightPlan
from core.weights.table import HeldTable, Table
from kernels.common.memory import octets, room
from kernels.linear.reference import QuantisedTensors, WeightFormat


def fill(file: FileIO, view: memoryview, path: Path) -> None:
    """Read until `view` is full: a raw read may give less than was asked for."""
    filled = 0
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            raise changed(path)
        filled += count


def changed(path: Path) -> BrokenWeightsError:
    return BrokenWeightsError(f"{path.name} changed while it was being read.")


def unreadable(path: Path, error: OSError) -> MissingFileError:
    return MissingFileError(f"{path.name} can't be read: {error.strerror}.")


def allocate(spec: TensorSpec, device: torch.device) -> Tensor:
    """A tensor without content. Raises NotEnoughMemoryError."""
    try:
        return room(spec.shape, spec.dtype, device)
    # Torch's CPU allocator has no class of its own for this; the system's is an OSError.
    except (RuntimeError, OSError) as error:
        raise NotEnoughMemoryError(
            f"No room for the next {spec.num_bytes / 1e6:,.0f} MB of the model."
        ) from error


class BackgroundDigest:
    """SHA-256 in another thread, because digesting a file takes longer than reading it.

    The data of an update must not change until `behind` more updates have followed.
    """

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._hash = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._waiting: deque[Future[None]] = deque()

    def update(self, data: bytes | memoryview) -> None:
        self._waiting.append(self._thread.submit(self._hash.update, data))
        self.wait(self._behind)

    def wait(self, left: int = 0) -> None:
        while len(self._waiting) > left:
            self._waiting.popleft().result()

    def digest(self) -> bytes:
        self.wait()
        return self._hash.digest()

    def close(self) -> None:
        self._thread.shutdown()


@dataclass(frozen=True, slots=True)
class ReadWeights:
    """The tensors of a model by published name, matrices in their formats: a `Source`.

    `quantised` is called with each slice of a matrix that may be quantised.
    """

    quantised: Callable[[str, QuantisedTensors], None] = lambda name, kept: None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    matrices: dict[str, list[QuantisedTensors]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.tensors.pop(name)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        return self.matrices.pop(name)

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.tables.pop(name)

    def add(self, name: str, spec: TensorSpec, tensor: Tensor, weight_format: WeightFormat) -> None:
        """Take a tensor for all its uses; a table that is there already stays."""
        if Use.TENSOR in spec.use:
            self.tensors[name] = tensor
        if Use.TABLE in spec.use:
            self.tables.setdefault(name, HeldTable(tensor))
        if Use.MATRIX in spec.use:
            self.add_matrix(name, spec, weight_format.quantise(tensor))
            if not weight_format.is_plain:
                FREED.add(tensor.nbytes)  # the floats before quantising

    def add_matrix(self, name: str, spec: TensorSpec, kept: QuantisedTensors) -> None:
        self.matrices.setdefault(name, []).append(kept)
        if not spec.exact:
            self.quantised(name, kept)


class ReadPlan:
    """The planned tensors: `plain` ones, and packed `layers` by the tensor of their values.

    `small` are the other tensors of packed layers.
    """

    def __init__(
        self,
        plan: WeightPlan,
        files: tuple[WeightsFile, ...],
        packed: PackedPlan,
        device: torch.device,
    ) -> None:
        self.device, self.plan = device, plan
        self.plain = {name: spec for name, spec in plan.items() if name not in packed}
        self.layers = {layer.values: layer for layer in packed.values()}
        parts = {name for layer in packed.values() for name in layer.parts.values()}
        self.small = parts - self.layers.keys()
        self._migrating = {
            spec.input_norm.name for spec in plan.values() if spec.input_norm is not None
        }
        wanted = self.small | self._migrating
        self._places = {
            name: (file.path, entry)
            for file in files
            for name, entry in file.tensors.items()
            if name in wanted
        }
        self._digests: dict[str, bytes] = {}
        self._norms: dict[str, Tensor] = {}

    def small_parts(self, layer: PackedLayer) -> dict[str, Tensor]:
        names = [name for name in layer.parts.values() if name in self.small]
        return {name: self._look_up(name) for name in names}

    def migrating_scales(self, norm: InputNorm) -> Tensor:
        if norm.name not in self._norms:
            self._norms[norm.name] = self._look_up(norm.name)
        return migrating_scales(self._norms[norm.name].float() + norm.offset)

    def confirm(self, name: str, tensor: Tensor) -> None:
        """Note a norm when its turn comes; raise if it differs from an earlier look-up."""
        if name in self._migrating:
            found = self._norms.setdefault(name, tensor)
            both = (each.view(torch.uint8) for each in (found.to(tensor.dtype), tensor))
            if not torch.equal(*both):
                raise changed(self._places[name][0])

    def witness(self, name: str, digest: bytes) -> None:
        """Raise unless both readings of a small tensor gave the same bytes."""
        if self._digests.setdefault(name, digest) != digest:
            raise changed(self._places[name][0])

    def _look_up(self, name: str) -> Tensor:
        path, entry = self._places[name]
        tensor = allocate(TensorSpec(entry.shape, DTYPES[entry.dtype]), torch.device("cpu"))
        data = octets(tensor)
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(entry.start)
                fill(file, data, path)
        except OSError as error:
            raise unreadable(path, error) from error
        self.witness(name, hashlib.sha256(data).digest())
        return tensor.to(self.device)
