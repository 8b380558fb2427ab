"""What is to be read from all files, and the small tensors that are needed out of turn.

When a matrix is quantised, scales migrate into it from the norm that feeds it, and that norm may
come later in the file, or in another one; a norm that has been read is not looked up again.

A layer in a published format is several tensors, and files are sorted by type: all packed values
may come long before all scales. So when the values of a layer come by, its small tensors are looked
up wherever they are, and forgotten with it. When their turn comes, or when it has been, they must
have the same bytes: what was used is what the digest covers.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from core.loading.reading.raw import AS_STORED, allocate, changed, fill, unreadable
from core.weights.published.packed import PackedLayer, PackedPlan
from core.weights.safetensors_file import SafetensorsFile
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import TensorSpec, WeightPlan
from kernels.common.memory import octets


class ReadPlan:
    """The planned tensors: plain ones, and packed layers by the tensor of their values.

    `small` are the other tensors of packed layers.
    """

    def __init__(
        self,
        plan: WeightPlan,
        files: tuple[SafetensorsFile, ...],
        packed: PackedPlan,
        device: torch.device,
    ) -> None:
        self.device = device
        self.plan = plan
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
        """All tensors of a layer but its values, read from wherever they are."""
        names = [name for name in layer.parts.values() if name in self.small]
        return {name: self._look_up(name) for name in names}

    def migrating_scales(self, norm: InputNorm) -> Tensor:
        """What a norm gives up to the matrices that it feeds (core.weights.smoothing)."""
        if norm.name not in self._norms:
            self._norms[norm.name] = self._look_up(norm.name)
        return migrating_scales(self._norms[norm.name].float() + norm.offset)

    def confirm(self, name: str, tensor: Tensor) -> None:
        """A norm whose turn has come: the matrices that it feeds are told what it is, and if it was
        looked up before, it must be the same."""
        if name in self._migrating:
            found = self._norms.setdefault(name, tensor)
            both = (each.view(torch.uint8) for each in (found.to(tensor.dtype), tensor))
            if not torch.equal(*both):
                raise changed(self._places[name][0])

    def witness(self, name: str, digest: bytes) -> None:
        """Both readings of a small tensor must have given the same bytes."""
        if self._digests.setdefault(name, digest) != digest:
            raise changed(self._places[name][0])

    def _look_up(self, name: str) -> Tensor:
        path, entry = self._places[name]
        spec = TensorSpec(entry.shape, AS_STORED[entry.dtype])
        tensor = allocate(spec, torch.device("cpu"))
        data = octets(tensor)
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(entry.start)
                fill(file, data, path)
        except OSError as error:
            raise unreadable(path, error) from error
        self.witness(name, hashlib.sha256(data).digest())
        return tensor.to(self.device)
