"""Reading weights: each file once, front to back, straight into its tensors, digested meanwhile.

Files are not mapped: mapped pages of a file that another program truncates end the process. Besides
the tensors in their formats, memory holds a few pieces of `PIECE_BYTES`, one matrix or slice before
it is quantised, and one packed layer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import FileIO
from itertools import cycle

import torch
from torch import Tensor

from core.loading.read_plan import (
    BackgroundDigest,
    ReadPlan,
    ReadWeights,
    allocate,
    changed,
    fill,
    unreadable,
)
from core.weights.published.packed import PackedLayer, PackedPlan
from core.weights.published.quantised import Float8Blocks, Quantised
from core.weights.safetensors_file import (
    DTYPES,
    LENGTH_BYTES,
    HeaderError,
    StoredTensor,
    WeightsFile,
    read_raw_header,
)
from core.weights.spec import TensorSpec, Use, WeightPlan, slice_rows
from core.weights.table import FileTable
from kernels.common.memory import octets
from kernels.linear.reference import PLAIN, QuantisedTensors, WeightFormats

# Between two calls of progress and check; so small a piece stays in a processor's cache.
PIECE_BYTES = 2 * 2**20
_PIECES = 3  # one is filled and copied while others are digested


def stream_weights(
    plan: WeightPlan,
    files: tuple[WeightsFile, ...],
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    packed: PackedPlan | None = None,
    formats: WeightFormats = PLAIN,
    quantised: Callable[[str, QuantisedTensors], None] = lambda name, kept: None,
) -> tuple[ReadWeights, str]:
    """Load every planned tensor onto `device`.

    Calls `progress(done, total)` in bytes and `check`, which may raise, for every piece, and
    `quantised` with each slice of a matrix that may be quantised. Returns the tensors, and the
    SHA-256, in hex, of the SHA-256 of `files` in their order. Raises BrokenWeightsError when a file
    changed since its header was read, or has impossible numbers.
    """
    weights = ReadWeights(quantised)
    total = sum(file.num_bytes for file in files)
    done = 0

    def advance(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        progress(done, total)
        check()

    combined = hashlib.sha256()
    read_plan = ReadPlan(plan, files, packed or {}, device)
    for file in files:
        combined.update(_Reader(file, read_plan, formats, weights, advance).load())
    return weights, combined.hexdigest()


class Unquantised:
    def __init__(
        self,
        plan: WeightPlan,
        files: tuple[WeightsFile, ...],
        device: torch.device,
        packed: PackedPlan,
        formats: WeightFormats,
        elsewhere: frozenset[str],
    ) -> None:
        self._files, self._formats = files, formats
        left = {
            name: replace(spec, use=spec.use & ~Use.MATRIX) if name in elsewhere else spec
            for name, spec in plan.items()
        }
        left = {name: spec for name, spec in left.items() if spec.use}
        layers = {name: layer for name, layer in packed.items() if name in left}
        self._read_plan = ReadPlan(left, files, layers, device)

    @property
    def num_bytes(self) -> int:
        return sum(
            file.num_bytes
            - sum(each.end - each.start for name, each in file.tensors.items() if self._skips(name))
            for file in self._files
        )

    def read(self, advance: Callable[[int], None]) -> ReadWeights:
        """Calls `advance` with bytes read; it may raise. Raises BrokenWeightsError,
        MissingFileError."""
        weights = ReadWeights()
        for file in self._files:
            _Reader(file, self._read_plan, self._formats, weights, advance, digest=False).load()
        return weights

    def _skips(self, name: str) -> bool:
        read_plan = self._read_plan
        if name in read_plan.plain:
            return read_plan.plain[name].use == Use.TABLE and self._formats.rows_from_file
        return name not in read_plan.layers and name not in read_plan.small


class _Reader:
    def __init__(
        self,
        source: WeightsFile,
        read_plan: ReadPlan,
        formats: WeightFormats,
        weights: ReadWeights,
        advance: Callable[[int], None],
        *,
        digest: bool = True,
    ) -> None:
        """Without `digest`, what nothing needs is not read at all."""
        self._source, self._read_plan, self._formats = source, read_plan, formats
        self._weights, self._advance = weights, advance
        self._hash = BackgroundDigest(behind=_PIECES - 1) if digest else None
        self._pieces_by_turns = cycle([bytearray(PIECE_BYTES) for _ in range(_PIECES)])
        self._piece = next(self._pieces_by_turns)

    def load(self) -> bytes:
        """Take the planned tensors of this file; returns its SHA-256, or nothing."""
        path = self._source.path
        try:
            with path.open("rb", buffering=0) as file:
                self._load(file)
            return self._hash.digest() if self._hash is not None else b""
        except OSError as error:
            raise unreadable(path, error) from error
        finally:
            if self._hash is not None:
                self._hash.close()

    def _load(self, file: FileIO) -> None:
        read_plan, position = self._read_plan, self._pass_header(file)
        for name, entry in sorted(self._source.tensors.items(), key=lambda item: item[1].start):
            if not (name in read_plan.plain or name in read_plan.layers or name in read_plan.small):
                continue
            self._skip(file, entry.start - position)
            position = entry.end
            if name in read_plan.small:
                read_plan.witness(name, self._part_digest(file, entry))
            elif name in read_plan.plain:
                self._take(file, name, entry, read_plan.plain[name])
            else:
                layer = read_plan.layers[name]
                self._take_packed(layer, self._packed(file, entry, layer))
        self._skip(file, self._source.num_bytes - position)
        if file.read(1):
            raise changed(self._source.path)

    def _pass_header(self, file: FileIO) -> int:
        """Digest the header, which must be the one that was checked; returns its bytes."""
        try:
            raw = read_raw_header(file, self._source.num_bytes)
        except HeaderError as error:
            raise changed(self._source.path) from error
        if hashlib.sha256(raw).digest() != self._source.header_digest:
            raise changed(self._source.path)
        self._digest(len(raw).to_bytes(LENGTH_BYTES, "little"))
        self._digest(raw)
        self._advance(LENGTH_BYTES + len(raw))
        return LENGTH_BYTES + len(raw)

    def _take(self, file: FileIO, name: str, entry: StoredTensor, spec: TensorSpec) -> None:
        weight_format = self._formats.of(spec.exact)
        if Use.TABLE in spec.use and self._formats.rows_from_file:
            shape, stored = (spec.shape[0], spec.shape[1]), DTYPES[entry.dtype]
            table = FileTable(file, entry.start, shape, stored, spec.dtype)
            self._weights.tables[name] = table
        if spec.use == Use.TABLE and self._formats.rows_from_file:
            self._skip(file, entry.end - entry.start)
            return
        for rows in slice_rows(spec, self._formats):
            # Not in a variable, which would hold it until the next slice is read.
            self._weights.add(name, spec, self._slice(file, name, entry, spec, rows), weight_format)

    def _slice(
        self, file: FileIO, name: str, entry: StoredTensor, spec: TensorSpec, rows: int
    ) -> Tensor:
        """The next rows of a plain tensor, multiplied by the scales that migrate into it."""
        part = TensorSpec((rows, *spec.shape[1:]) if spec.shape else (), spec.dtype)
        tensor = self._tensor(file, DTYPES[entry.dtype], part)
        if spec.transposed:
            _, inputs, outputs = spec.stored_shape
            tensor = tensor.view(-1, inputs, outputs).transpose(1, 2).reshape(tensor.shape)
        self._read_plan.confirm(name, tensor)
        if spec.input_norm is not None:
            # In its own type, which holds powers of two; torch would copy the whole matrix else.
            tensor *= self._read_plan.migrating_scales(spec.input_norm).to(tensor.dtype)
        return tensor

    def _packed(
        self, file: FileIO, entry: StoredTensor, layer: PackedLayer
    ) -> Quantised | Float8Blocks:
        stored = DTYPES[entry.dtype]
        values = self._tensor(file, stored, TensorSpec(entry.shape, stored))
        return layer.assemble({**self._read_plan.small_parts(layer), layer.values: values})

    def _take_packed(self, layer: PackedLayer, weights: Quantised | Float8Blocks) -> None:
        spec = self._read_plan.plan[layer.name]
        weight_format = self._formats.of(spec.exact)
        if spec.use == Use.MATRIX and isinstance(weights, Quantised) and weights.groups is None:
            size = weights.group_size
            kept = weight_format.repack(weights.values, weights.scales, weights.zeros, size)
            if kept is not None:
                self._weights.add_matrix(layer.name, spec, kept)
                return
        floats = allocate(spec, self._read_plan.device)
        weights.write_to(floats)
        self._weights.add(layer.name, spec, floats, weight_format)

    def _tensor(self, file: FileIO, stored: torch.dtype, spec: TensorSpec) -> Tensor:
        tensor = allocate(spec, self._read_plan.device)
        if stored == spec.dtype and tensor.device.type == "cpu":
            self._read(file, octets(tensor))
            return tensor
        flat, start = tensor.view(-1), 0
        for size in self._pieces(file, spec.num_elements * stored.itemsize):
            count = size // stored.itemsize
            piece = torch.frombuffer(self._piece, dtype=stored, count=count)
            flat[start : start + count].copy_(piece)
            start += count
        return tensor

    def _read(self, file: FileIO, view: memoryview) -> None:
        """Read the next bytes in place; they are digested on return and may be changed."""
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            fill(file, piece, self._source.path)
            self._digest(piece)
            self._advance(len(piece))
        if self._hash is not None:
            self._hash.wait()

    def _part_digest(self, file: FileIO, entry: StoredTensor) -> bytes:
        digest = hashlib.sha256()
        for size in self._pieces(file, entry.end - entry.start):
            digest.update(memoryview(self._piece)[:size])
        return digest.digest()

    def _skip(self, file: FileIO, num_bytes: int) -> None:
        if self._hash is None:
            file.seek(num_bytes, os.SEEK_CUR)
            return
        for _ in self._pieces(file, num_bytes):
            pass

    def _pieces(self, file: FileIO, num_bytes: int) -> Iterator[int]:
        """Read the next `num_bytes` in pieces; yields how much of `_piece` is filled."""
        while num_bytes > 0:
            size = min(num_bytes, PIECE_BYTES)
            self._piece = next(self._pieces_by_turns)
            view = memoryview(self._piece)[:size]
            fill(file, view, self._source.path)
            self._digest(view)
            yield size
            self._advance(size)
            num_bytes -= size

    def _digest(self, data: bytes | memoryview) -> None:
        if self._hash is not None:
            self._hash.update(data)
