"""Reading weights: each file once, front to back, straight into its tensors, digested on the way.

Plain reads and not a memory map: mapped pages of a file that another program cuts short end the
process, and the digest wants every byte anyway. Beyond the tensors themselves only one piece of
`PIECE_BYTES` is ever held, converted as it is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import torch
from torch import Tensor

from core.api.errors import (
    BrokenWeightsError,
    MissingFileError,
    MissingTensorError,
    NotEnoughMemoryError,
    UnsupportedDeviceError,
    WrongShapeError,
)
from core.weights.plan import TensorSpec, WeightPlan
from core.weights.safetensors_file import (
    LENGTH_BYTES,
    SafetensorsFile,
    StoredTensor,
    read_raw_header,
)

# Between two looks at progress and cancel; 4 MiB stays in a processor's cache on its way.
PIECE_BYTES = 4 * 2**20
_READABLE = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
}


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
        if entry.dtype not in _READABLE:
            raise UnsupportedDeviceError(
                f"{name} is stored as {entry.dtype}, which Waymark can't read yet."
            )


def stream_weights(
    plan: WeightPlan,
    files: tuple[SafetensorsFile, ...],
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
) -> tuple[dict[str, Tensor], str]:
    """Load every planned tensor onto `device`; `check_plan` has passed.

    Calls `progress(done, total)` in bytes of the files and `check`, which may raise, for every
    piece. Returns the tensors and the SHA-256, in hex, of the files' SHA-256 in the order of
    `files`. Raises BrokenWeightsError when a file is not what its header said any more.
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
    for file in files:
        reader = _Reader(file, advance)
        tensors.update(reader.load(plan, device))
        combined.update(reader.digest())
    return tensors, combined.hexdigest()


class _Reader:
    """One pass over one file."""

    def __init__(self, source: SafetensorsFile, advance: Callable[[int], None]) -> None:
        self._source = source
        self._advance = advance
        self._hash = hashlib.sha256()
        self._piece = bytearray(PIECE_BYTES)

    def digest(self) -> bytes:
        """SHA-256 of the whole file, once `load` is through."""
        return self._hash.digest()

    def load(self, plan: WeightPlan, device: torch.device) -> dict[str, Tensor]:
        """The planned tensors of this file; the other bytes only pass through the digest."""
        path = self._source.path
        try:
            with path.open("rb", buffering=0) as file:
                return self._load(file, plan, device)
        except OSError as error:
            raise MissingFileError(f"{path.name} can't be read: {error.strerror}.") from error

    def _load(self, file: BinaryIO, plan: WeightPlan, device: torch.device) -> dict[str, Tensor]:
        position = self._pass_header(file)
        tensors = {}
        for name, entry in sorted(self._source.tensors.items(), key=lambda item: item[1].start):
            if name in plan:
                self._skip(file, entry.start - position)
                tensors[name] = self._tensor(file, entry, plan[name], device)
                position = entry.end
        self._skip(file, self._source.num_bytes - position)
        if file.read(1):
            raise self._changed()
        return tensors

    def _pass_header(self, file: BinaryIO) -> int:
        """Digest the header; it must be the one that was checked."""
        raw = read_raw_header(file, self._source.path, self._source.num_bytes)
        if hashlib.sha256(raw).digest() != self._source.header_digest:
            raise self._changed()
        self._hash.update(len(raw).to_bytes(LENGTH_BYTES, "little"))
        self._hash.update(raw)
        self._advance(LENGTH_BYTES + len(raw))
        return LENGTH_BYTES + len(raw)

    def _tensor(
        self, file: BinaryIO, entry: StoredTensor, spec: TensorSpec, device: torch.device
    ) -> Tensor:
        tensor = _allocate(spec, device)
        flat, start = tensor.view(-1), 0
        stored = _READABLE[entry.dtype]
        for size in self._pieces(file, entry.end - entry.start):
            count = size // stored.itemsize
            piece = torch.frombuffer(self._piece, dtype=stored, count=count)
            flat[start : start + count].copy_(piece)
            start += count
        return tensor

    def _skip(self, file: BinaryIO, num_bytes: int) -> None:
        for _ in self._pieces(file, num_bytes):
            pass

    def _pieces(self, file: BinaryIO, num_bytes: int) -> Iterator[int]:
        """Read the next `num_bytes` through the piece buffer; yields how much of it is filled."""
        while num_bytes > 0:
            size = min(num_bytes, PIECE_BYTES)
            view = memoryview(self._piece)[:size]
            self._fill(file, view)
            self._hash.update(view)
            yield size
            self._advance(size)
            num_bytes -= size

    def _fill(self, file: BinaryIO, view: memoryview) -> None:
        """A raw read may give less than was asked for."""
        filled = 0
        while filled < len(view):
            count = file.readinto(view[filled:])  # type: ignore[attr-defined]
            if not count:
                raise self._changed()
            filled += count

    def _changed(self) -> BrokenWeightsError:
        return BrokenWeightsError(f"{self._source.path.name} changed while it was being read.")


def _allocate(spec: TensorSpec, device: torch.device) -> Tensor:
    try:
        return torch.empty(spec.shape, dtype=spec.dtype, device=device)
    except RuntimeError as error:  # torch's CPU allocator has no class of its own for this
        raise NotEnoughMemoryError(
            f"No room for the next {spec.num_bytes / 1e6:,.0f} MB of the model."
        ) from error
