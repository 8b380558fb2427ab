"""MiniCPM-V's pictures: a small one as a whole, a large one also slice by slice. Sizes, slices and
pixels equal those of transformers' `MiniCPMV4_6ImageProcessorPil`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from PIL import Image as Pillow
from torch import Tensor

from core.api.errors import BrokenConfigError
from core.vision.configs import (
    HALF,
    MAX_TILE_SIZE,
    MAX_TILES,
    MAX_TOKENS,
    PixelConfig,
    Source,
    TokenId,
    mark_of,
    published,
)
from core.vision.processor import MAX_ASPECT, Grid, PictureProcessor, ResizePlan, check_size

PATCHES_OF_TOKEN = 4  # along an edge
MARKS = ("<image>", "</image>", "<slice>", "</slice>", "\n")
# Their ids in config.json of MiniCPM-V 4.7.
MARK_KEYS = ("image_start_id", "image_end_id", "slice_start_id", "slice_end_id", "newline_id")
AROUND_NUMBERS = ("<image_id>", "</image_id>")  # in the text before a picture


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceConfig(PixelConfig):
    """Sizes in pixels. A picture of more than `size` x `size` has up to `most_slices` slices of
    about that. `limit`: most tokens of a picture, 0 for none. `marks`: ids of MARKS."""

    patch_size: int
    size: int
    most_slices: int
    limit: int
    marks: tuple[int, ...]

    @property
    def token_size(self) -> int:
        return self.patch_size * PATCHES_OF_TOKEN

    @property
    def most_tokens(self) -> int:
        # Sides are rounded to whole tokens, of which a narrow picture has at least one.
        side = self.size // self.token_size
        most = (self.most_slices + 1) * (max(2 * side, math.isqrt(MAX_ASPECT) + 1) * side + 3)
        return min(most, self.limit or most)

    def with_max_tokens(self, limit: int | None) -> SliceConfig:
        return replace(self, limit=limit or 0)


@dataclass(frozen=True, slots=True)
class Layout:
    height: int
    width: int
    rows: int = 0
    columns: int = 0
    slices_height: int = 0
    slices_width: int = 0


class SliceImageProcessor(PictureProcessor):
    """`on_canvas`: at positions on one canvas that the slices tile and the whole spans (MiniCPM-V
    4.7); else in a line."""

    config: SliceConfig

    def __init__(self, config: SliceConfig, *, on_canvas: bool = False) -> None:
        super().__init__(config)
        self._on_canvas = on_canvas

    @property
    def max_tokens(self) -> int:
        return self.config.most_tokens

    def measure(self, width: int, height: int) -> ResizePlan:
        layout = self._layout(width, height)
        whole, sizes = (layout.width, layout.height), [(layout.width, layout.height)]
        if layout.rows:
            sizes.append((layout.slices_width, layout.slices_height))
        grids, to_patches = tuple(self._grids(layout)), partial(self._patches, layout)
        plan = ResizePlan(
            *whole, 1, self._tokens(layout), grids, to_patches, tuple(sizes), repr(layout).encode()
        )
        if not self._on_canvas:
            return plan
        kept = frozenset(self.config.marks)
        return replace(plan, in_line=False, canvas=_canvas(layout, grids), kept_ids=kept)

    def _settings_of_key(self) -> str:
        """The number of slices and the limit only affect the layout."""
        return repr(replace(self.config, most_slices=0, limit=0))

    def _layout(self, width: int, height: int) -> Layout:
        check_size(width, height)
        limit, layout = self.config.limit, Layout(0, 0)
        for layout in self._layouts(height, width):
            if not limit or self._tokens(layout) <= limit:
                break
        return layout

    def _layouts(self, height: int, width: int) -> Iterator[Layout]:
        size, unit = self.config.size, self.config.token_size
        for most in range(self.config.most_slices, 1, -1):
            rows, columns = _grid_of(height, width, size, most)
            if rows:
                # Of a picture whose sides the slices divide.
                part = max(round(height / rows), 1), max(round(width / columns), 1)
                down, across = _fitted(*part, size, unit)
                whole = _fitted(height, width, size, unit)
                yield Layout(*whole, rows, columns, down * rows, across * columns)
        for smaller in range(size, 0, -unit):
            yield Layout(*_fitted(height, width, smaller, unit))

    def _tokens(self, layout: Layout) -> int:
        return sum(
            grid.num_patches // PATCHES_OF_TOKEN**2 + len(grid.before) + len(grid.after)
            for grid in self._grids(layout)
        )

    def _grids(self, layout: Layout) -> list[Grid]:
        begin, end, begin_slice, end_slice, line = self.config.marks
        patch = self.config.patch_size
        grids = [Grid(layout.height // patch, layout.width // patch, (begin,), (end,))]
        if layout.rows:
            down = layout.slices_height // layout.rows // patch
            across = layout.slices_width // layout.columns // patch
            for row in range(layout.rows):
                for column in range(layout.columns):
                    first_of_line = (line,) if row and not column else ()
                    before = (*first_of_line, begin_slice)
                    grids.append(Grid(down, across, before, (end_slice,)))
        return grids

    def _patches(self, layout: Layout, data: bytes) -> Tensor:
        parts = [(1, 1, layout.height, layout.width)]
        if layout.rows:
            height = layout.slices_height // layout.rows
            width = layout.slices_width // layout.columns
            parts.append((layout.rows, layout.columns, height, width))
        return self._patches_of(data, self.config.patch_size, *parts)


def _canvas(layout: Layout, grids: Sequence[Grid]) -> tuple[tuple[int, int], ...]:
    """Row and column of each token, marks included; the whole's are spread over the slices. Rounds
    as the reference, whose steps between tokens are float32."""
    whole, *slices = [
        (grid.rows // PATCHES_OF_TOKEN, grid.columns // PATCHES_OF_TOKEN) for grid in grids
    ]
    down, across = slices[0] if slices else whole
    height, width = max(1, layout.rows) * down, max(1, layout.columns) * across
    spread = [
        torch.linspace(0, most - 1, count).round().int().tolist()
        for most, count in zip((height, width), whole, strict=True)
    ]
    places = [(-1, -1), *product(*spread), (height, width)]
    for row, column in product(range(layout.rows), range(layout.columns)):
        top, left = row * down, column * across
        if row and not column:
            places.append((top - 1, width))
        places.append((top, left))
        places += product(range(top, top + down), range(left, left + across))
        places.append((top + down - 1, left + across - 1))
    return tuple(places)


def _fitted(height: int, width: int, size: int, unit: int) -> tuple[int, int]:
    ratio = width / height
    height = int(size / math.sqrt(ratio))
    width = int(height * ratio)
    rounded = [max(round(each / unit) * unit, unit) for each in (height, width)]
    return rounded[0], rounded[1]


def _grid_of(height: int, width: int, size: int, most: int) -> tuple[int, int]:
    """Rows and columns of slices, whose ratio is nearest to the picture's; (0, 0) for none."""
    ratio = math.log(width / height)
    wanted = min(math.ceil(width * height / size**2), most)
    if wanted <= 1:
        return 0, 0
    best, least = (1, 1), math.inf
    for count in (wanted - 1, wanted, wanted + 1):
        if count == 1 or count > most:
            continue
        for rows in (each for each in range(1, count + 1) if count % each == 0):
            columns = count // rows
            error = abs(ratio - math.log(columns / rows))
            if error < least or (error == least and rows > best[0]):
                best, least = (rows, columns), error
    return best


def read_slice_config(source: Source, model: Mapping[str, Any], token_id: TokenId) -> SliceConfig:
    """The tokenizer must have the ids of MARKS and AROUND_NUMBERS. Raises MissingFileError and
    BrokenConfigError."""
    with published(source) as settings:
        patch = int(settings.get("patch_size", 14))
        settings.agree("patch_size", patch, (model.get("vision_config") or {}).get("patch_size"))
        settings.agree("downsample_mode", settings.get("downsample_mode", "16x"), "16x")
        settings.agree("use_image_id", settings.get("use_image_id", True), True)
        for each in AROUND_NUMBERS:
            mark_of(each, token_id)
        size = int(settings.get("scale_resolution", 448))
        most = int(settings.get("max_slice_nums", 9)) if settings.get("slice_mode", True) else 0
        if patch < 1 or not patch * PATCHES_OF_TOKEN <= size <= MAX_TILE_SIZE:
            raise ValueError("a slice has whole tokens")
        if not 0 <= most <= MAX_TILES:
            raise BrokenConfigError(
                f"{settings.folder}: {most:,} slices of a picture are too many."
            )
        marks = tuple(mark_of(each, token_id) for each in MARKS)
        for name, mark in zip(MARK_KEYS, marks, strict=True):
            settings.agree(name, mark, model.get(name, mark))
        config = SliceConfig(
            patch_size=patch,
            size=size,
            most_slices=most,
            limit=0,
            marks=marks,
            **settings.pixels(HALF, HALF, Pillow.Resampling.BICUBIC),
        )
        if config.most_tokens > MAX_TOKENS:
            raise ValueError("a picture of that size is refused")
        return config
