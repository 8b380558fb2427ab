"""Reads the tensors of a model, each for its uses.

A norm whose scales migrate into a matrix before it, and the scales of a packed layer, are read
early; in its turn such a tensor must be the same, because only that reading is digested. Memory
also holds one matrix or slice before it is quantised, and one packed layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from core.loading.plan import HeldPlan
from core.loading.quantised_file import QuantisedFile
from core.weights.container import TensorStream, changed
from core.weights.memory import FREED, allocate
from core.weights.packing import Slices, StoredBlocks
from core.weights.published.packed import PackedLayer
from core.weights.published.quantised import Quantised
from core.weights.safetensors_file import DTYPES
from core.weights.smoothing import InputNorm, migrating_scales
from core.weights.spec import TensorSpec, Use, slice_rows
from core.weights.table import HeldTable, Table
from kernels.common.memory import octets
from kernels.linear.blocks import BlockFormat
from kernels.linear.reference import QuantisedTensors, WeightFormats


class TensorReader:
    """`read` reads the planned tensors, then it is the model's `Source`. Matrices in `kept` come
    from there. Without `digest` unused tensors are not read. `keep` gets each slice of a matrix
    that may be quantised."""

    def __init__(
        self,
        plan: HeldPlan,
        device: torch.device,
        kept: QuantisedFile | None = None,
        keep: Callable[[str, QuantisedTensors], None] | None = None,
        *,
        digest: bool = True,
    ) -> None:
        self._container, self._published = plan.model.container, plan.model.published
        self._device, self._formats = device, plan.formats
        self._kept, self._keep, self._digest = kept, keep, digest and kept is None
        self._kept_names = frozenset(kept.layout.matrices if kept is not None else ())
        self._planned = plan.tensors
        self._specs: dict[str, TensorSpec] = {}
        for name, spec in plan.tensors.items():
            use = spec.use & ~Use.MATRIX if name in self._kept_names else spec.use
            if use:
                self._specs[name] = replace(spec, use=use)
        layers = {name: layer for name, layer in plan.packed.items() if name in self._specs}
        self._layers = {layer.values: layer for layer in layers.values()}
        parts = {name for layer in layers.values() for name in layer.parts.values()}
        self._small = parts - self._layers.keys()
        self._plain = self._specs.keys() - layers.keys()
        norms = (spec.input_norm for spec in self._specs.values())
        self._migrating = {norm.name for norm in norms if norm is not None}
        self._packing = sum(packing_bytes(spec, plan.formats) for spec in plan.tensors.values())
        self._advance: Callable[[int], None] = lambda num_bytes: None
        self._digests: dict[str, bytes] = {}
        self._norms: dict[str, Tensor] = {}
        self.tensors: dict[str, Tensor] = {}
        self.matrices: dict[str, list[QuantisedTensors]] = {}
        self._blocks: dict[str, StoredBlocks] = {}
        self.tables: dict[str, Table] = {}

    @property
    def num_bytes(self) -> int:
        if self._digest:
            return self._container.num_bytes() + self._packing
        specs, formats = self._specs, self._formats
        in_file = {name for name in self._plain if specs[name].stays_in_file(formats)}
        read = self._container.num_bytes(self._names - in_file)
        if self._kept is not None:
            read += self._kept.layout.num_bytes - self._kept.layout.data_start
        return read + self._packing

    @property
    def _names(self) -> set[str]:
        return self._plain | self._layers.keys() | self._small

    def read(
        self, advance: Callable[[int], None], finish: Callable[[], None] = lambda: None
    ) -> str:
        """Read all but `kept` matrices and blocks, which are read while `finish` builds the model;
        returns the digest of the weights files, or ''. Raises BrokenWeightsError, MissingFileError,
        NotEnoughMemoryError."""
        self._advance = advance
        if self._kept is not None:
            self._kept.advance = advance
        return self._container.read(self._names, self._take, advance, finish, digest=self._digest)

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.tensors.pop(self._published(name))

    def matrix(self, name: str, spec: TensorSpec) -> Slices | StoredBlocks:
        """Raises QuantisedDamagedError for a kept matrix."""
        name = self._published(name)
        self._advance(packing_bytes(self._planned[name], self._formats))
        if name in self._blocks:
            return self._blocks.pop(name)
        if self._kept is not None and name in self._kept_names:
            slices = self._kept.matrix(name)
            return [tuple(part.to(self._device) for part in each) for each in slices]
        return self.matrices.pop(name)

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.tables.pop(self._published(name))

    def _take(self, stream: TensorStream) -> None:
        if stream.name in self._plain:
            self._take_plain(stream, self._specs[stream.name])
        elif stream.name in self._small:
            self._witness(stream.name, self._stored(stream))
        else:
            self._take_packed(stream, self._layers[stream.name])

    def _stored(self, stream: TensorStream) -> Tensor:
        header = self._container.tensors[stream.name]
        tensor = allocate(header.shape, DTYPES[header.dtype], self._device)
        stream.fill(tensor)
        return tensor

    def _take_plain(self, stream: TensorStream, spec: TensorSpec) -> None:
        if spec.in_file or (Use.TABLE in spec.use and self._formats.rows_from_file):
            self.tables[stream.name] = stream.table(spec.dtype)
        if spec.stays_in_file(self._formats):
            return
        if isinstance(spec.blocks, BlockFormat):
            assert stream.rows is not None
            self._blocks[stream.name] = StoredBlocks(stream.rows, spec.blocks, self._device)
            return
        for rows in slice_rows(spec, self._formats):
            # Not in a variable, which would hold it until the next slice is read.
            self._add(stream.name, spec, self._slice(stream, spec, rows))

    def _slice(self, stream: TensorStream, spec: TensorSpec, rows: int) -> Tensor:
        shape = (rows, *spec.shape[1:]) if spec.shape else ()
        tensor = allocate(shape, spec.dtype, self._device)
        stream.fill(tensor)
        if spec.transposed:
            _, inputs, outputs = spec.stored_shape
            tensor = tensor.view(-1, inputs, outputs).transpose(1, 2).reshape(tensor.shape)
        if stream.name in self._migrating:
            self._confirm(stream.name, tensor)
        if spec.input_norm is not None:
            # In its own type, which holds powers of two; torch would copy the whole matrix else.
            tensor *= self._migrating_scales(spec.input_norm).to(tensor.dtype)
        return tensor

    def _take_packed(self, stream: TensorStream, layer: PackedLayer) -> None:
        spec = self._specs[layer.name]
        # The stored values are not in a variable, which would hold them beside the unpacked ones.
        weights = layer.assemble({**self._small_parts(layer), layer.values: self._stored(stream)})
        if spec.use == Use.MATRIX and isinstance(weights, Quantised) and weights.groups is None:
            size, usual = weights.group_size, self._formats.of(spec.exact)
            kept = usual.repack(weights.values, weights.scales, weights.zeros, size)
            if kept is not None:
                self._add_matrix(layer.name, spec, kept)
                return
        floats = allocate(spec.shape, spec.dtype, self._device)
        weights.write_to(floats)
        self._add(layer.name, spec, floats)

    def _add(self, name: str, spec: TensorSpec, tensor: Tensor) -> None:
        """A table that is there already stays."""
        weight_format = self._formats.of(spec.exact)
        if Use.TENSOR in spec.use:
            self.tensors[name] = tensor
        if Use.TABLE in spec.use:
            self.tables.setdefault(name, HeldTable(tensor))
        if Use.MATRIX in spec.use:
            self._add_matrix(name, spec, weight_format.quantise(tensor))
            if not weight_format.is_plain:
                FREED.add(tensor.nbytes)  # the floats before quantising

    def _add_matrix(self, name: str, spec: TensorSpec, kept: QuantisedTensors) -> None:
        self.matrices.setdefault(name, []).append(kept)
        if self._keep is not None and not spec.exact:
            self._keep(name, kept)

    # Tensors that are read early

    def _small_parts(self, layer: PackedLayer) -> dict[str, Tensor]:
        return {name: self._look_up(name) for name in layer.parts.values() if name in self._small}

    def _migrating_scales(self, norm: InputNorm) -> Tensor:
        if norm.name not in self._norms:
            self._norms[norm.name] = self._look_up(norm.name)
        return migrating_scales(self._norms[norm.name].float() + norm.offset)

    def _look_up(self, name: str) -> Tensor:
        tensor = self._container.look_up(name)
        self._witness(name, tensor)
        return tensor.to(self._device)

    def _witness(self, name: str, tensor: Tensor) -> None:
        """Raise unless all readings of a small tensor gave the same bytes."""
        digest = hashlib.sha256(octets(tensor.cpu())).digest()
        if self._digests.setdefault(name, digest) != digest:
            raise changed(name)

    def _confirm(self, name: str, tensor: Tensor) -> None:
        found = self._norms.setdefault(name, tensor)
        if not torch.equal(*(each.view(torch.uint8) for each in (found.to(tensor.dtype), tensor))):
            raise changed(name)


def packing_bytes(spec: TensorSpec, formats: WeightFormats) -> int:
    is_packed = Use.MATRIX in spec.use and not spec.format(formats).is_plain
    return spec.held_bytes(formats) if is_packed else 0
