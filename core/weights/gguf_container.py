"""The GGUF files of a model as a container of tensors under published names. Rows of a tensor may
be anywhere in a file, so another thread digests the files meanwhile; their sizes and times show
that both read the same."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from io import FileIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.gguf.file import GGUFPart, GGUFTensor
from core.gguf.models.model import GGUFModel
from core.gguf.models.recipe import Bytes, Floats, Recipe, RowReader, block_columns
from core.weights.container import (
    Container,
    Facts,
    StoredBlocks,
    TensorHeader,
    TensorStream,
    changed,
    facts_of,
    unreadable,
)
from core.weights.memory import allocate
from core.weights.safetensors_file import DTYPES
from core.weights.stream import PIECE_BYTES, OpenFiles
from core.weights.table import FileTable, Table
from kernels.blocks.types import GGUFType, dequantise
from kernels.linear.blocks import StoredRows

# Numbers that are decoded at once: 4 MiB of floats.
_MOST_VALUES = 2**20
_FLOATS = {
    GGUFType.F32: torch.float32, GGUFType.F16: torch.float16,
    GGUFType.BF16: torch.bfloat16, GGUFType.F64: torch.float64,
}  # fmt: skip
_INTEGERS = (GGUFType.I8, GGUFType.I16, GGUFType.I32, GGUFType.I64)
_WAIT_S = 0.1


class GGUFContainer(Container):
    has_blocks = True

    def __init__(self, path: Path, model: GGUFModel) -> None:
        self.path, self.config, self.model = path, model.config, model
        self.settings_name = path.name
        self.tensors = {
            name: TensorHeader(_type_name(recipe), recipe.shape)
            for name, recipe in model.recipes.items()
        }
        self._opened = self.facts()

    def num_bytes(self, names: Collection[str] | None = None) -> int:
        if names is None:
            return sum(part.num_bytes for part in self.model.files)
        recipes = (self.model.recipes[name] for name in names)
        return sum(part.num_bytes for part in {part for each in recipes for part in each.parts})

    def stored_name(self, name: str) -> str:
        recipe = self.model.recipes.get(name)
        return recipe.name if recipe is not None else self.model.missing.get(name, name)

    def blocks(self, name: str) -> StoredBlocks | None:
        recipe = self.model.recipes[name]
        kind = recipe.block_type
        if kind is None:
            return None
        columns = block_columns(recipe)
        return kind, recipe.width, None if columns is None else torch.from_numpy(columns)

    def read(
        self,
        names: Collection[str],
        take: Callable[[TensorStream], None],
        advance: Callable[[int], None],
        finish: Callable[[], None] = lambda: None,
        *,
        digest: bool,
    ) -> str:
        """The digest is that of the SHA-256 of each file."""
        left = self.num_bytes() if digest else self.num_bytes(names)

        def count(num_bytes: int) -> None:
            nonlocal left
            advance(min(num_bytes, left))
            left -= min(num_bytes, left)

        for part in self.model.files:
            _check_header(part)
        with closing(_Digest(self.model.files)) as whole, closing(_Files(count)) as files:
            found = whole.start() if digest else None
            for name in sorted(names, key=self._place):
                recipe = self.model.recipes[name]
                stream = _RecipeStream(recipe, files)
                table = partial(files.table, recipe)
                take(TensorStream(name, stream.fill, table, stream.rows))
            finish()
            result = whole.wait(found, advance) if found is not None else ""
        if self.facts() != self._opened:
            raise changed(self.path.name)
        if digest:  # else `left` has tables that stay in the file
            advance(left)
        return result

    def look_up(self, name: str) -> Tensor:
        header = self.tensors[name]
        tensor = allocate(header.shape, DTYPES[header.dtype])
        with closing(_Files(lambda num_bytes: None)) as files:
            _RecipeStream(self.model.recipes[name], files).fill(tensor)
        return tensor

    def facts(self) -> Facts:
        return facts_of((part.path, part.header_digest) for part in self.model.files)

    def _place(self, name: str) -> tuple[int, int]:
        first = self.model.recipes[name].parts[0]
        paths = [part.path for part in self.model.files]
        return paths.index(first.path), first.offset


class _Files(OpenFiles):
    def read_part(self, tensor: GGUFTensor, start: int, data: Bytes) -> None:
        self.read(tensor.path, tensor.offset + start, data.data)

    def table(self, recipe: Recipe, dtype: torch.dtype) -> Table:
        """One tensor, whose rows the converter left in order; NVFP4 has scales beside it."""
        (part,), scales = recipe.parts, RowReader(recipe, self.read_part).scales
        try:
            return _BlockTable(self.file(part.path), part, dtype, scales)
        except OSError as error:
            raise unreadable(part.path, error) from error


class _RecipeStream:
    def __init__(self, recipe: Recipe, files: _Files) -> None:
        self._recipe, self._files = recipe, files
        self._reader = RowReader(recipe, files.read_part)
        self._row = 0

    def fill(self, target: Tensor) -> None:
        width = self._recipe.width
        rows = target.view(-1, width) if target.numel() else target
        step = max(1, _MOST_VALUES // max(1, width))
        for start in range(0, len(rows) if target.numel() else 0, step):
            part = rows[start : start + step]
            part.copy_(self._next(len(part)))

    @property
    def rows(self) -> StoredRows | None:
        if self._recipe.block_type is None:
            return None
        size, scales = (self._recipe.num_rows, self._reader.row_bytes), self._reader.scales
        return StoredRows(
            size, self._fill_blocks, None if scales is None else torch.from_numpy(scales)
        )

    def _fill_blocks(self, start: int, target: Tensor) -> None:
        for rows in target.split(max(1, PIECE_BYTES // max(1, target.shape[1]))):
            self._reader.blocks(rows.numpy(), start)
            start += len(rows)

    def _next(self, count: int) -> Tensor:
        first, self._row = self._row, self._row + count
        stored = _stored(self._recipe)
        if stored is None:
            return torch.from_numpy(self._reader(first, self._row))
        row_bytes = self._recipe.width * stored.itemsize
        data = np.empty(count * row_bytes, np.uint8)
        self._files.read_part(self._recipe.parts[0], first * row_bytes, data)
        return torch.from_numpy(data).view(stored).view(count, -1)


class _BlockTable(FileTable):
    def __init__(
        self, file: FileIO, part: GGUFTensor, dtype: torch.dtype, scales: Floats | None
    ) -> None:
        rows, width = part.shape
        super().__init__(
            file, part.offset, (rows, width), torch.float32, dtype, row_bytes=part.row_bytes
        )
        self._type, self._scales = part.type, scales

    def _decoded(self, data: bytearray, numbers: list[int]) -> Tensor:
        rows = dequantise(self._type, np.frombuffer(data, np.uint8)).reshape(len(numbers), -1)
        return torch.from_numpy(
            rows if self._scales is None else rows * self._scales[numbers, None]
        )


class _Digest:
    def __init__(self, parts: tuple[GGUFPart, ...]) -> None:
        self._parts, self._stop = parts, threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="digest")

    def close(self) -> None:
        self._stop.set()
        self._thread.shutdown()

    def start(self) -> Future[str]:
        return self._thread.submit(self._digest)

    def wait(self, found: Future[str], advance: Callable[[int], None]) -> str:
        """Calls `advance` with no bytes meanwhile."""
        while True:
            try:
                return found.result(_WAIT_S)
            except TimeoutError:
                advance(0)

    def _digest(self) -> str:
        combined, piece = hashlib.sha256(), bytearray(PIECE_BYTES)
        for part in self._parts:
            each = hashlib.sha256()
            try:
                with part.path.open("rb", buffering=0) as file:
                    while (count := file.readinto(piece)) and not self._stop.is_set():
                        each.update(memoryview(piece)[:count])
            except OSError as error:
                raise unreadable(part.path, error) from error
            combined.update(each.digest())
        return combined.hexdigest()


def _check_header(part: GGUFPart) -> None:
    try:
        with part.path.open("rb") as file:
            header = file.read(part.header_bytes)
    except OSError as error:
        raise unreadable(part.path, error) from error
    if hashlib.sha256(header).digest() != part.header_digest:
        raise changed(part.path.name)


def _stored(recipe: Recipe) -> torch.dtype | None:
    return _FLOATS.get(recipe.parts[0].type) if recipe.is_plain else None


def _type_name(recipe: Recipe) -> str:
    if any(part.type in _INTEGERS for part in recipe.parts):
        return recipe.parts[0].type.name
    return recipe.parts[0].type.name if _stored(recipe) is not None else "F32"
