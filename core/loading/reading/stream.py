"""Reading weights: each file once, front to back, straight into its tensors, digested on the way.

Plain reads and not a memory map: mapped pages of a file that another program cuts short end the
process, and the digest wants every byte anyway. Beyond the tensors themselves, matrices in their
format, there are only ever a few pieces of `PIECE_BYTES`, converted as they are copied, one
matrix or slice on its way into its format, and one layer of a published format
(core.loading.reading.read_plan).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import cycle

import torch
from torch import Tensor

from core.loading.reading.digest import BackgroundDigest
from core.loading.reading.held import ReadWeights
from core.loading.reading.raw import AS_STORED, allocate, changed, fill, unreadable
from core.loading.reading.read_plan import ReadPlan
from core.weights.published.packed import PackedLayer, PackedPlan
from core.weights.published.quantised import Dequantisable, Quantised
from core.weights.safetensors_file import (
    LENGTH_BYTES,
    SafetensorsFile,
    StoredTensor,
    read_raw_header,
)
from core.weights.spec import TensorSpec, Use, WeightPlan
from core.weights.table import FileTable
from kernels.common.memory import octets
from kernels.linear.reference import PLAIN, QuantisedTensors, WeightFormats

# Between two looks at progress and cancel; so small a piece stays in a processor's cache.
PIECE_BYTES = 2 * 2**20
_PIECES = 3  # one is filled and copied while others are digested
# A matrix of more than twice these bytes is taken in slices of whole rows: in another format it
# would otherwise lie in memory twice, and an output head is a third of a small model.
SLICE_BYTES = 64 * 2**20
_SLICE_ROWS = 1024  # slices have multiples of it


def floats_on_the_way(plan: WeightPlan, formats: WeightFormats) -> int:
    """Bytes that plain tensors take, at most, before they are in their formats, and as they are
    stored if that is the other way round."""
    sizes = (
        max(slice_rows(spec, formats))
        * (spec.num_bytes // spec.shape[0])
        * (spec.transposed + (not formats.of(spec.exact).is_plain))
        for spec in plan.values()
        if Use.MATRIX in spec.use
    )
    return max(sizes, default=0)


def stream_weights(
    plan: WeightPlan,
    files: tuple[SafetensorsFile, ...],
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    packed: PackedPlan | None = None,
    formats: WeightFormats = PLAIN,
    quantised: Callable[[str, QuantisedTensors], None] = lambda name, kept: None,
) -> tuple[ReadWeights, str]:
    """Load every planned tensor onto `device`; headers have been checked for all but the `packed`.

    Calls `progress(done, total)` in bytes of the files and `check`, which may raise, for every
    piece. Returns the tensors, matrices held in their `formats`, and the SHA-256, in hex, of the
    files' SHA-256 in the order of `files`. Raises BrokenWeightsError when a file is not what its
    header said any more, or holds packed numbers that can't be. `quantised` is told what is held of
    each matrix that may be quantised.
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
        reader = Reader(file, read_plan, formats, weights, advance)
        reader.load()
        combined.update(reader.digest())
    return weights, combined.hexdigest()


class Reader:
    """One pass over one file, from front to back, digesting all of it."""

    def __init__(
        self,
        source: SafetensorsFile,
        read_plan: ReadPlan,
        formats: WeightFormats,
        weights: ReadWeights,
        advance: Callable[[int], None],
    ) -> None:
        self._source = source
        self._read_plan = read_plan
        self._formats = formats
        self._weights = weights
        self._advance = advance
        self._hash = BackgroundDigest(behind=_PIECES - 1)
        self._pieces_by_turns = cycle([bytearray(PIECE_BYTES) for _ in range(_PIECES)])
        self._piece = next(self._pieces_by_turns)

    def digest(self) -> bytes:
        """SHA-256 of the whole file, once `load` is through."""
        return self._hash.digest()

    def load(self) -> None:
        """Take the planned tensors of this file; the others only pass through the digest."""
        path = self._source.path
        try:
            with path.open("rb", buffering=0) as file:
                self._load(file)
        except OSError as error:
            raise unreadable(path, error) from error
        finally:
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

    def _take(self, file: FileIO, name: str, entry: StoredTensor, spec: TensorSpec) -> None:
        """Hold a plainly stored tensor, or what is needed of it."""
        stored, weight_format = AS_STORED[entry.dtype], self._formats.of(spec.exact)
        if Use.TABLE in spec.use and self._formats.rows_from_file:
            shape = (spec.shape[0], spec.shape[1])
            table = FileTable(file, entry.start, shape, stored, spec.dtype)
            self._weights.tables[name] = table
        if spec.use == Use.TABLE and self._formats.rows_from_file:
            self._skip(file, entry.end - entry.start)
            return
        for rows in slice_rows(spec, self._formats):
            # Without a name: it would stay until the next slice is read.
            self._weights.add(name, spec, self._slice(file, name, entry, spec, rows), weight_format)

    def _slice(
        self, file: FileIO, name: str, entry: StoredTensor, spec: TensorSpec, rows: int
    ) -> Tensor:
        """The next rows of a plainly stored tensor, with the scales that migrate into it."""
        part = TensorSpec((rows, *spec.shape[1:]) if spec.shape else (), spec.dtype)
        tensor = self._tensor(file, AS_STORED[entry.dtype], part)
        if spec.transposed:
            tensor = _transposed(tensor, spec)
        self._read_plan.confirm(name, tensor)
        if spec.input_norm is not None:
            # In its own type, which holds powers of two: torch would copy the whole matrix else.
            tensor *= self._read_plan.migrating_scales(spec.input_norm).to(tensor.dtype)
        return tensor

    def _take_packed(self, layer: PackedLayer, weights: Dequantisable) -> None:
        """Hold a layer in a published format: its integers, if the model's format is like them."""
        spec = self._read_plan.plan[layer.name]
        weight_format = self._formats.of(spec.exact)
        if spec.use == Use.MATRIX and isinstance(weights, Quantised) and weights.groups is None:
            size = weights.group_size
            kept = weight_format.repack(weights.values, weights.scales, weights.zeros, size)
            if kept is not None:
                self._weights.hold(layer.name, spec, kept)
                return
        floats = allocate(spec, self._read_plan.device)
        weights.write_to(floats)
        self._weights.add(layer.name, spec, floats, weight_format)

    def _pass_header(self, file: FileIO) -> int:
        """Digest the header; it must be the one that was checked."""
        raw = read_raw_header(file, self._source.path, self._source.num_bytes)
        if hashlib.sha256(raw).digest() != self._source.header_digest:
            raise changed(self._source.path)
        self._digest(len(raw).to_bytes(LENGTH_BYTES, "little"))
        self._digest(raw)
        self._advance(LENGTH_BYTES + len(raw))
        return LENGTH_BYTES + len(raw)

    def _tensor(self, file: FileIO, stored: torch.dtype, spec: TensorSpec) -> Tensor:
        """The next numbers of the file."""
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
        """The next bytes of the file, to where they stay; they may be changed then."""
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            fill(file, piece, self._source.path)
            self._digest(piece)
            self._advance(len(piece))
        self._hash.wait()

    def _packed(self, file: FileIO, entry: StoredTensor, layer: PackedLayer) -> Dequantisable:
        """A layer's weights as they are stored: its values come next in this file."""
        stored = AS_STORED[entry.dtype]
        values = self._tensor(file, stored, TensorSpec(entry.shape, stored))
        parts = self._read_plan.small_parts(layer)
        return layer.assemble({**parts, layer.values: values})

    def _part_digest(self, file: FileIO, entry: StoredTensor) -> bytes:
        digest = hashlib.sha256()
        for size in self._pieces(file, entry.end - entry.start):
            digest.update(memoryview(self._piece)[:size])
        return digest.digest()

    def _digest(self, octets: bytes | memoryview) -> None:
        self._hash.update(octets)

    def _skip(self, file: FileIO, num_bytes: int) -> None:
        """Pass over what nobody asked for."""
        for _ in self._pieces(file, num_bytes):
            pass

    def _pieces(self, file: FileIO, num_bytes: int) -> Iterator[int]:
        """Read the next `num_bytes` piece by piece; yields how much of `_piece` is filled."""
        while num_bytes > 0:
            size = min(num_bytes, PIECE_BYTES)
            self._piece = next(self._pieces_by_turns)
            view = memoryview(self._piece)[:size]
            fill(file, view, self._source.path)
            self._digest(view)
            yield size
            self._advance(size)
            num_bytes -= size


def _transposed(tensor: Tensor, spec: TensorSpec) -> Tensor:
    """Whole matrices of a stack, whose inputs come first, with outputs as rows."""
    outputs, inputs = spec.stored_shape[2], spec.stored_shape[1]
    return tensor.view(-1, inputs, outputs).transpose(1, 2).reshape(tensor.shape)


def slice_rows(spec: TensorSpec, formats: WeightFormats) -> list[int]:
    """Numbers of rows in which a tensor is taken, one after the other; of a stack, whole matrices.

    A stack is taken in slices even where it stays plain: each of its matrices is placed by itself,
    and would lie in memory twice.
    """
    held = Use.TABLE in spec.use and not formats.rows_from_file
    plain = spec.stack is None and formats.of(spec.exact).is_plain
    whole = held or plain or Use.MATRIX not in spec.use
    if whole or spec.num_bytes <= 2 * SLICE_BYTES:
        return [spec.shape[0] if spec.shape else 1]
    num_rows = spec.shape[0]
    row_bytes = spec.num_bytes // num_rows
    together = _SLICE_ROWS if spec.stack is None else num_rows // spec.stack
    rows = max(1, SLICE_BYTES // row_bytes // together) * together
    return [min(rows, num_rows - start) for start in range(0, num_rows, rows)]
