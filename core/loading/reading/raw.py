"""Bytes from files into tensors: which types can be read, and what can go wrong on the way."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError, NotEnoughMemoryError
from core.weights.spec import TensorSpec
from kernels.common.memory import room

# Plain weights, by safetensors' names.
READABLE = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
}
# What the tensors of published formats may be stored as; they are read as they are.
AS_STORED = READABLE | {
    "F8_E4M3": torch.float8_e4m3fn,
    "I32": torch.int32,
    "I64": torch.int64,
}


def fill(file: FileIO, view: memoryview, path: Path) -> None:
    """Read until `view` is full: a raw read may give less than was asked for."""
    filled = 0
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            raise changed(path)
        filled += count


def changed(path: Path) -> BrokenWeightsError:
    """The error for a file that is not what its header said any more."""
    return BrokenWeightsError(f"{path.name} changed while it was being read.")


def unreadable(path: Path, error: OSError) -> MissingFileError:
    """The error for what the system says about a file."""
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
