"""The interface between the loader and the files of a model, whatever their format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError
from core.weights.table import Table
from kernels.blocks.types import GGUFType
from kernels.linear.blocks import StoredRows

StoredBlocks = tuple[GGUFType, int, Tensor | None]
"""Type, inputs and columns, as `kernels.linear.blocks.BlockFormat` has them."""

# For each file of a model: path, size, times of writing and of the last change, header digest.
Facts = list[list[str | int]]


@dataclass(frozen=True, slots=True)
class TensorHeader:
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorStream:
    """A tensor in its turn of `Container.read`; usable until `take` returns.

    `fill(target)` reads the next numbers in row-major order into a contiguous tensor, converted to
    its type and device. `rows` are those of `Container.blocks`, readable until `read` returns.
    `table(dtype)` looks up rows where they are stored.
    """

    name: str
    fill: Callable[[Tensor], None]
    table: Callable[[torch.dtype], Table]
    rows: StoredRows | None = None


class Container(ABC):
    """The files of one model with checked headers. Names and shapes of `tensors` are those
    published in safetensors, whatever the format. Methods that read raise MissingFileError, and
    BrokenWeightsError if a file changed since it was opened."""

    path: Path
    config: dict[str, Any]
    tensors: Mapping[str, TensorHeader]
    settings_name = "config.json"
    """The file that `config` is from, for messages."""
    has_blocks = False
    """True if `blocks` may find some."""

    @abstractmethod
    def num_bytes(self, names: Collection[str] | None = None) -> int:
        """Bytes that `read` reads for these tensors without a digest, or for all files with one."""

    def stored_name(self, name: str) -> str:
        return name

    def blocks(self, name: str) -> StoredBlocks | None:
        """The stored rows of a tensor, if a matrix can multiply by them as they are. Raises
        WrongShapeError if its columns can't be put in order."""
        return None

    @abstractmethod
    def read(
        self,
        names: Collection[str],
        take: Callable[[TensorStream], None],
        advance: Callable[[int], None],
        finish: Callable[[], None] = lambda: None,
        *,
        digest: bool,
    ) -> str:
        """Call `take` with each tensor of `names` in the order of the files, then `finish`;
        `advance` with the bytes read, at least every 4 MiB. All may raise.

        With a `digest` every byte is read, and the result is the files' SHA-256 in hex; otherwise
        it is empty, and only what `take` asks for is read.
        """

    @abstractmethod
    def look_up(self, name: str) -> Tensor:
        """A small tensor in its stored type, on the CPU; `take` may ask for it before its turn."""

    @abstractmethod
    def facts(self) -> Facts:
        """Show later, without reading, if a file was moved, replaced or written to; empty if one is
        missing."""


def changed(name: str) -> BrokenWeightsError:
    return BrokenWeightsError(f"{name} changed while it was being read.")


def unreadable(path: Path, error: OSError) -> MissingFileError:
    return MissingFileError(f"{path.name} can't be read: {error.strerror}.")


def facts_of(files: Iterable[tuple[Path, bytes]]) -> Facts:
    """Anyone can set the time of writing; that of the last change only on Windows."""
    facts: Facts = []
    for path, header_digest in files:
        try:
            path = path.resolve()
            now = path.stat()
        except OSError:  # reading the files will report it
            return []
        times = now.st_mtime_ns, now.st_ctime_ns
        facts.append([str(path), now.st_size, *times, header_digest.hex()])
    return facts
