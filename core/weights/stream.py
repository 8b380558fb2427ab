"""Reading weights: each file once, front to back, straight into its tensors, digested on the way.

Plain reads and not a memory map: mapped pages of a file that another program cuts short end the
process, and the digest wants every byte anyway. Beyond the tensors themselves only one piece of
`PIECE_BYTES` is ever held, converted as it is copied, and of layers in published formats one at a
time (core.weights.outline).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from io import FileIO

import torch
from torch import Tensor

from core.api.errors import MissingTensorError, UnsupportedDeviceError, WrongShapeError
from core.weights.outline import Outline
from core.weights.plan import TensorSpec, WeightPlan
from core.weights.published.packed import PackedLayer, PackedPlan
from core.weights.published.quantised import Dequantisable
from core.weights.raw import AS_STORED, READABLE, allocate, changed, fill, unreadable
from core.weights.safetensors_file import (
    LENGTH_BYTES,
    SafetensorsFile,
    StoredTensor,
    read_raw_header,
)

# Between two looks at progress and cancel; 4 MiB stays in a processor's cache on its way.
PIECE_BYTES = 4 * 2**20


def check_plan(plan: WeightPlan, files: tuple[SafetensorsFile, ...]) -> None:
    """Compare what the model asks for with the headers.

    Raises MissingTensorError, WrongShapeError, or UnsupportedDeviceError for a packed type.
    Tensors that nobody asks for, such as `mtp.*`, are let be.
    """
    stored = {name: entry for file in files for name, entry in file.tensors.items()}
    for name, spec in plan.items():
        entry = stored.get(name)
        if entry is None:
            raise MissingTensorError(f"{name} is in none of the weights files.")
        if entry.shape != spec.shape:
            raise WrongShapeError(
                f"{name} should be {list(spec.shape)} by config.json, the file has "
                f"{list(entry.shape)}."
            )
        if entry.dtype not in READABLE:
            raise UnsupportedDeviceError(
                f"{name} is stored as {entry.dtype}, which Waymark can't read yet."
            )


def stream_weights(
    plan: WeightPlan,
    files: tuple[SafetensorsFile, ...],
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    packed: PackedPlan | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Load every planned tensor onto `device`; `check_plan` has passed for all but the `packed`.

    Calls `progress(done, total)` in bytes of the files and `check`, which may raise, for every
    piece. Returns the tensors and the SHA-256, in hex, of the files' SHA-256 in the order of
    `files`. Raises BrokenWeightsError when a file is not what its header said any more, or holds
    packed numbers that can't be.
    """
    tensors: dict[str, Tensor] = {}
    total = sum(file.num_bytes for file in files)
    done = 0

    def advance(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        progress(done, total)
        check()

    combined = hashlib.sha256()
    outline = Outline(plan, files, packed or {}, device)
    for file in files:
        reader = _Reader(file, outline, advance)
        tensors.update(reader.load())
        combined.update(reader.digest())
    return tensors, combined.hexdigest()


class _Reader:
    """One pass over one file."""

    def __init__(
        self, source: SafetensorsFile, outline: Outline, advance: Callable[[int], None]
    ) -> None:
        self._source = source
        self._outline = outline
        self._advance = advance
        self._hash = hashlib.sha256()
        self._piece = bytearray(PIECE_BYTES)

    def digest(self) -> bytes:
        """SHA-256 of the whole file, once `load` is through."""
        return self._hash.digest()

    def load(self) -> dict[str, Tensor]:
        """The planned tensors of this file; the other bytes only pass through the digest."""
        path = self._source.path
        try:
            with path.open("rb", buffering=0) as file:
                return self._load(file)
        except OSError as error:
            raise unreadable(path, error) from error

    def _load(self, file: FileIO) -> dict[str, Tensor]:
        outline, position = self._outline, self._pass_header(file)
        tensors = {}
        for name, entry in sorted(self._source.tensors.items(), key=lambda item: item[1].start):
            if not (name in outline.plain or name in outline.layers or name in outline.small):
                continue
            self._skip(file, entry.start - position)
            position = entry.end
            if name in outline.small:
                outline.witness(name, self._part_digest(file, entry))
            elif name in outline.plain:
                tensors[name] = self._tensor(file, entry, outline.plain[name], outline.device)
            else:
                layer = outline.layers[name]
                weights = self._packed(file, entry, layer)
                tensors[layer.name] = _in_floats(weights, outline.plan[layer.name], outline.device)
        self._skip(file, self._source.num_bytes - position)
        if file.read(1):
            raise changed(self._source.path)
        return tensors

    def _pass_header(self, file: FileIO) -> int:
        """Digest the header; it must be the one that was checked."""
        raw = read_raw_header(file, self._source.path, self._source.num_bytes)
        if hashlib.sha256(raw).digest() != self._source.header_digest:
            raise changed(self._source.path)
        self._hash.update(len(raw).to_bytes(LENGTH_BYTES, "little"))
        self._hash.update(raw)
        self._advance(LENGTH_BYTES + len(raw))
        return LENGTH_BYTES + len(raw)

    def _tensor(
        self, file: FileIO, entry: StoredTensor, spec: TensorSpec, device: torch.device
    ) -> Tensor:
        tensor = allocate(spec, device)
        flat, start = tensor.view(-1), 0
        stored = AS_STORED[entry.dtype]
        for size in self._pieces(file, entry.end - entry.start):
            count = size // stored.itemsize
            piece = torch.frombuffer(self._piece, dtype=stored, count=count)
            flat[start : start + count].copy_(piece)
            start += count
        return tensor

    def _packed(self, file: FileIO, entry: StoredTensor, layer: PackedLayer) -> Dequantisable:
        """A layer's weights as they are stored: its values come next in this file."""
        spec = TensorSpec(entry.shape, AS_STORED[entry.dtype])
        values = self._tensor(file, entry, spec, self._outline.device)
        parts = self._outline.small_parts(layer)
        return layer.assemble({**parts, layer.values: values})

    def _part_digest(self, file: FileIO, entry: StoredTensor) -> bytes:
        digest = hashlib.sha256()
        for size in self._pieces(file, entry.end - entry.start):
            digest.update(memoryview(self._piece)[:size])
        return digest.digest()

    def _skip(self, file: FileIO, num_bytes: int) -> None:
        for _ in self._pieces(file, num_bytes):
            pass

    def _pieces(self, file: FileIO, num_bytes: int) -> Iterator[int]:
        """Read the next `num_bytes` through the piece buffer; yields how much of it is filled."""
        while num_bytes > 0:
            size = min(num_bytes, PIECE_BYTES)
            view = memoryview(self._piece)[:size]
            fill(file, view, self._source.path)
            self._hash.update(view)
            yield size
            self._advance(size)
            num_bytes -= size


def _in_floats(weights: Dequantisable, spec: TensorSpec, device: torch.device) -> Tensor:
    """The plain tensor that the plan asked for.

    This is where whoever computes with packed weights would take them as they are.
    """
    tensor = allocate(spec, device)
    weights.write_to(tensor)
    return tensor
