"""How a published tensor is made of a GGUF file's: the inverse of llama.cpp's converter as data, so
rows can be moved without being decoded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from core.api.errors import BrokenWeightsError, WrongShapeError
from core.gguf.file import GGUFTensor
from kernels.blocks.types import GGUFType, dequantise

Shape = tuple[int, ...]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
# Number of rows or columns in the file -> the row or column of the file for each published one.
Order = Callable[[int], Indices]
# Fills an array with the bytes of a tensor from `start` on.
ReadBytes = Callable[[GGUFTensor, int, Bytes], None]
_NEAR = 4  # neighbours of a rounded logarithm, on each side


@dataclass(frozen=True, slots=True)
class Recipe:
    """A tensor of `shape` from the rows of `parts`, one part below the other.

    Rows are as wide as the last axis, or `row_width`. Row i is row `rows(..)[i]` of the parts,
    column j column `columns(..)[j]`, and `values` maps the numbers. `scales` multiply a part: one
    number, or one for each of its experts.
    """

    shape: Shape
    parts: tuple[GGUFTensor, ...]
    rows: Order | None = None
    columns: Order | None = None
    values: Callable[[Floats], Floats] | None = None
    scales: tuple[GGUFTensor | None, ...] = ()
    row_width: int = 0

    @property
    def is_plain(self) -> bool:
        changed = self.rows or self.columns or self.values or any(self.scales)
        return len(self.parts) == 1 and not changed

    @property
    def block_type(self) -> GGUFType | None:
        """The type of all blocks, if rows are rows of the file and columns at most moved."""
        types = {part.type for part in self.parts}
        # Of blocks only NVFP4 has scales in files.
        if self.values or len(types) > 1 or (any(self.scales) and types != {GGUFType.NVFP4}):
            return None
        (found,) = types
        return found if found.block_values > 1 and not self.width % found.block_values else None

    @property
    def width(self) -> int:
        return self.row_width or (self.shape[-1] if self.shape else 1)

    @property
    def num_rows(self) -> int:
        return math.prod(self.shape) // max(1, self.width)

    @property
    def name(self) -> str:
        return " and ".join(part.name for part in self.parts)


def plain(part: GGUFTensor) -> Recipe:
    return Recipe(part.shape, (part,))


class RowReader:
    """Reads published rows as float32, or as blocks whose columns are the file's. Raises
    WrongShapeError if the parts don't fit, and by `values` BrokenWeightsError."""

    def __init__(self, recipe: Recipe, read: ReadBytes) -> None:
        self._recipe, self._read, width = recipe, read, recipe.width
        for part in recipe.parts:
            if width % part.type.block_values or math.prod(part.shape) % width:
                raise WrongShapeError(
                    f"{part.name} of {list(part.shape)} can't be read as rows of {width:,} numbers."
                )
        sizes = [math.prod(part.shape) // width for part in recipe.parts]
        self._starts = np.cumsum([0, *sizes])
        self._rows = _order(recipe, recipe.rows, sum(sizes))
        if (sum(sizes) if self._rows is None else len(self._rows)) != recipe.num_rows:
            raise WrongShapeError(f"{recipe.name} should have {recipe.num_rows:,} rows of {width}.")
        self._columns = _order(recipe, recipe.columns, width)
        scales = recipe.scales or (None,) * len(sizes)
        self._scales = [
            self._by_row(each, size) if each is not None else None
            for each, size in zip(scales, sizes, strict=True)
        ]
        self._sizes = sizes

    def __call__(self, start: int, stop: int) -> Floats:
        rows = np.empty((stop - start, self._recipe.width), np.float32)
        self._collect(rows, start, self._numbers)
        if self._columns is not None:
            rows = rows[:, self._columns]
        return self._recipe.values(rows) if self._recipe.values is not None else rows

    @property
    def row_bytes(self) -> int:
        return _row_bytes(self._recipe, self._recipe.parts[0].type)

    @property
    def scales(self) -> Floats | None:
        """Of the published rows, if there are any."""
        if not any(self._recipe.scales):
            return None
        by_part = zip(self._scales, self._sizes, strict=True)
        found = [np.ones(size, np.float32) if each is None else each for each, size in by_part]
        stored = np.concatenate(found)
        return stored if self._rows is None else stored[self._rows]

    def blocks(self, rows: Bytes, start: int) -> None:
        self._collect(rows, start, self._bytes)

    def _collect(
        self, rows: npt.NDArray[Any], start: int, read: Callable[[int, int, Any], None]
    ) -> None:
        if self._rows is None:
            read(0, start, rows)
            return
        wanted = self._rows[start : start + len(rows)]
        for index in range(len(self._recipe.parts)):
            first, last = self._starts[index], self._starts[index + 1]
            places = np.flatnonzero((wanted >= first) & (wanted < last))
            in_file = np.argsort(wanted[places])
            numbers = wanted[places][in_file] - first
            # Rows that follow each other in the file are read at once.
            edges = np.flatnonzero(np.diff(numbers) != 1) + 1
            for run, there in zip(np.split(numbers, edges), np.split(in_file, edges), strict=True):
                if not len(run):
                    continue
                into = places[there]
                if (np.diff(into) == 1).all():
                    read(index, int(run[0]), rows[into[0] : into[-1] + 1])
                else:
                    neighbours = np.empty((len(run), rows.shape[1]), rows.dtype)
                    read(index, int(run[0]), neighbours)
                    rows[into] = neighbours

    def _bytes(self, index: int, first: int, rows: Bytes) -> None:
        self._read(self._recipe.parts[index], first * rows.shape[1], rows.reshape(-1))

    def _numbers(self, index: int, first: int, rows: Floats) -> None:
        part, scales = self._recipe.parts[index], self._scales[index]
        data = np.empty((len(rows), _row_bytes(self._recipe, part.type)), np.uint8)
        self._bytes(index, first, data)
        rows[:] = dequantise(part.type, data)
        if scales is not None:
            rows *= scales[first : first + len(rows), None]

    def _by_row(self, scale: GGUFTensor, rows: int) -> Floats:
        count = math.prod(scale.shape)
        if scale.type is not GGUFType.F32 or not count or rows % count:
            raise WrongShapeError(f"{scale.name} has no scale for each of {rows:,} rows.")
        data = np.empty(scale.num_bytes, np.uint8)
        self._read(scale, 0, data)
        return np.repeat(dequantise(scale.type, data), rows // count)


def block_columns(recipe: Recipe) -> Indices | None:
    """The published column of each column of the file; None if equal."""
    columns = _order(recipe, recipe.columns, recipe.width)
    return None if columns is None else np.argsort(columns)


def _row_bytes(recipe: Recipe, type: GGUFType) -> int:
    return recipe.width // type.block_values * type.block_bytes


def _order(recipe: Recipe, order: Order | None, count: int) -> Indices | None:
    try:
        return order(count) if order is not None else None
    except ValueError as error:
        raise WrongShapeError(f"{recipe.name} can't be split into heads.") from error


# ------------------------------------------------------------------ steps of recipes


def shaped(recipe: Recipe, *shape: int) -> Recipe:
    known = math.prod(size for size in shape if size >= 0)
    total = math.prod(recipe.shape)
    return replace(recipe, shape=tuple(total // known if size < 0 else size for size in shape))


def alternating(first: GGUFTensor, second: GGUFTensor, axis: int, *, new: bool) -> Recipe:
    """Two tensors of equal shape joined along `axis`, which is `new` or has both sizes."""
    if first.shape != second.shape:
        raise WrongShapeError(
            f"{second.name} is {list(second.shape)}, and {first.name} {list(first.shape)}."
        )
    before, after = first.shape[:axis], first.shape[axis:]
    shape = (*before, 2, *after) if new else (*before, 2 * after[0], *after[1:])
    outer, inner = math.prod(before), math.prod(after[:-1])

    def rows(count: int) -> Indices:
        return np.arange(count).reshape(2, outer, inner).swapaxes(0, 1).ravel()

    return Recipe(shape, (first, second), rows, row_width=first.shape[-1])


def swapped(first: int, second: int, count: int) -> Indices:
    """For `count` items in the file's order [first, second, ..]: those of [second, first, ..]."""
    return np.arange(count).reshape(first, second, -1).swapaxes(0, 1).ravel()


def one_less(numbers: Floats) -> Floats:
    """The weight of a norm that multiplies by one plus it."""
    return numbers - np.float32(1)


def log_of_negative(numbers: Floats) -> Floats:
    """log(-x): of the numbers near it, the one whose exponential is closest to -x, so that a decay
    keeps its bits."""
    if not (numbers <= 0).all():
        raise BrokenWeightsError("A decay of a recurrence is above zero or not a number.")
    wanted = torch.from_numpy(-numbers)
    best = wanted.double().log().float()
    error = (best.exp() - wanted).abs()
    for limit in (-math.inf, math.inf):
        step = best
        for _ in range(_NEAR):
            step = step.nextafter(torch.tensor(limit))
            distance = (step.exp() - wanted).abs()
            best = torch.where(distance < error, step, best)
            error = torch.minimum(distance, error)
    return best.numpy()
