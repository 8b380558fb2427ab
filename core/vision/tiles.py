"""LFM2-VL's pictures: in their own shape, large ones tile by tile and then as a whole. Tiles are
those of transformers' `Lfm2VlImageProcessor`, resized by Pillow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from PIL import Image as Pillow
from torch import Tensor

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
from core.vision.processor import Grid, PictureProcessor, ResizePlan, check_size, shrunk, smart_size


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig(PixelConfig):
    """Sizes in pixels; a token is a square of `token_size`. `max_tiles` is 0 without tiles.
    `tile_marks` are ids before a tile, by row and column, `whole_mark` the id before the whole
    picture, which follows its tiles."""

    patch_size: int
    token_size: int
    min_tokens: int
    max_tokens: int
    tolerance: float
    tile_size: int
    min_tiles: int
    max_tiles: int
    tile_marks: tuple[tuple[int, ...], ...]
    whole_mark: int | None
    keeps_most: bool = False
    """Narrow pictures respect `max_tokens` too, which the reference doesn't enforce."""

    @property
    def tokens_of_tile(self) -> int:
        return (self.tile_size // self.token_size) ** 2 + 1

    @property
    def tokens_of_whole(self) -> int:
        return self.max_tokens + 1 if self.whole_mark is not None else 0

    @property
    def most_tokens(self) -> int:
        of_tiles = self.max_tiles * self.tokens_of_tile + self.tokens_of_whole
        return max(self.max_tokens, of_tiles if self.max_tiles else 0)

    def with_max_tokens(self, limit: int | None) -> TileConfig:
        """Fewer tiles, or none if fewer than four, which can't form a square, would be left."""
        if not limit:
            return self
        tiles = min((limit - self.tokens_of_whole) // self.tokens_of_tile, self.max_tiles)
        enough = tiles >= max(self.min_tiles, min(4, self.max_tiles), 1)
        most = min(limit, self.max_tokens)
        return replace(
            self,
            max_tiles=tiles if enough else 0,
            max_tokens=most,
            min_tokens=min(self.min_tokens, most),
            keeps_most=True,
        )


@dataclass(frozen=True, slots=True)
class Layout:
    width: int
    height: int
    columns: int = 0
    rows: int = 0


class TileImageProcessor(PictureProcessor):
    config: TileConfig

    @property
    def max_tokens(self) -> int:
        return self.config.most_tokens

    def measure(self, width: int, height: int) -> ResizePlan:
        layout, unit = self._layout(width, height), self.config.token_size
        grids, tile = tuple(self._grids(layout)), self.config.tile_size
        size = layout.width, layout.height
        rows, columns = layout.height // unit, layout.width // unit
        sizes = [size]
        if layout.rows:
            size, rows = (tile * layout.columns, tile * layout.rows), 1
            columns = sum(
                grid.num_patches // (unit // self.config.patch_size) ** 2 + len(grid.before)
                for grid in grids
            )
            sizes = [size, *(sizes if self.config.whole_mark is not None else ())]
        to_patches, key = partial(self._patches, layout), repr(layout).encode()
        return ResizePlan(*size, rows, columns, grids, to_patches, tuple(sizes), key)

    def _settings_of_key(self) -> str:
        """The limits only affect the layout."""
        return repr(self.config.with_max_tokens(1))

    def _layout(self, width: int, height: int) -> Layout:
        check_size(width, height)
        config = self.config
        new_height, new_width = _smart_size(height, width, config)
        if not (config.max_tiles and _is_large(height, width, config)):
            return Layout(new_width, new_height)
        return Layout(new_width, new_height, *_tiles(width, height, config))

    def _grids(self, layout: Layout) -> list[Grid]:
        config, patch = self.config, self.config.patch_size
        whole = Grid(layout.height // patch, layout.width // patch)
        if not layout.rows:
            return [whole]
        side = config.tile_size // patch
        grids = [
            Grid(side, side, (config.tile_marks[row][column],))
            for row in range(layout.rows)
            for column in range(layout.columns)
        ]
        if config.whole_mark is not None:
            grids.append(replace(whole, before=(config.whole_mark,)))
        return grids

    def _patches(self, layout: Layout, data: bytes) -> Tensor:
        config, parts = self.config, []
        if layout.rows:
            parts.append((layout.rows, layout.columns, config.tile_size, config.tile_size))
        if not layout.rows or config.whole_mark is not None:
            parts.append((1, 1, layout.height, layout.width))
        return self._patches_of(data, config.patch_size, *parts)


def _smart_size(height: int, width: int, config: TileConfig) -> tuple[int, int]:
    """The reference's, which exceeds the limit for narrow pictures; with `keeps_most` within it."""
    unit = config.token_size
    low, high = config.min_tokens * unit**2, config.max_tokens * unit**2
    new_height, new_width = smart_size(height, width, unit, (low, high), least=unit)
    if config.keeps_most and new_height * new_width > high:
        new_height, new_width = shrunk(height, width, unit, high)
        new_width = min(new_width, max(unit, high // new_height // unit * unit))
        new_height = min(new_height, high // new_width)
    return new_height, new_width


def _is_large(height: int, width: int, config: TileConfig) -> bool:
    unit, least = config.token_size, config.patch_size
    rounded = [max(least, round(length / unit) * unit) for length in (height, width)]
    return math.prod(rounded) > config.max_tokens * unit**2 * config.tolerance


def _tiles(width: int, height: int, config: TileConfig) -> tuple[int, int]:
    """Columns and rows of tiles whose aspect ratio is closest to the picture's; (0, 0) for one. Of
    two equally close grids the larger is used if the picture has more than half of its pixels."""
    low, high = config.min_tiles, config.max_tiles
    sides = range(1, high + 1)
    pairs = [
        (columns, rows) for columns in sides for rows in sides if low <= columns * rows <= high
    ]
    best, least = (1, 1), math.inf
    for columns, rows in sorted(pairs, key=math.prod):
        difference = abs(width / height - columns / rows)
        if difference < least:
            best, least = (columns, rows), difference
        elif difference == least and width * height > 0.5 * config.tile_size**2 * columns * rows:
            best = columns, rows
    return (0, 0) if best == (1, 1) else best


def read_tile_config(source: Source, model: Mapping[str, Any], token_id: TokenId) -> TileConfig:
    with published(source) as settings:
        patch = int(settings.get("encoder_patch_size", 16))
        factor = int(settings.get("downsample_factor", 2))
        vision = model.get("vision_config") or {}
        settings.agree("patch_size", patch, vision.get("patch_size", patch))
        settings.agree("downsample_factor", factor, model.get("downsample_factor") or 2)
        low = int(settings.get("min_image_tokens", 64))
        high = int(settings.get("max_image_tokens", 256))
        fewest, most = int(settings.get("min_tiles", 2)), int(settings.get("max_tiles", 10))
        tile = int(settings.get("tile_size", 512))
        tolerance = float(settings.get("max_pixels_tolerance", 2.0))
        if not math.isfinite(tolerance):
            raise ValueError("a tolerance is a number")
        if min(patch, factor, low, tile, tolerance, fewest) <= 0 or low > high or fewest > most:
            raise ValueError("sizes are above zero, and the least is not above the most")
        if tile % (patch * factor):
            raise ValueError("a tile has whole tokens")
        if high > MAX_TOKENS or most > MAX_TILES or tile > MAX_TILE_SIZE:
            raise ValueError("a picture of that size is refused")
        splits = bool(settings.get("do_image_splitting", True)) and (fewest, most) != (1, 1)
        shows_whole = splits and settings.get("use_thumbnail", True)
        return TileConfig(
            patch_size=patch,
            token_size=patch * factor,
            min_tokens=low,
            max_tokens=high,
            tolerance=tolerance,
            tile_size=tile,
            min_tiles=fewest,
            max_tiles=most if splits else 0,
            tile_marks=_tile_marks(most, token_id) if splits else (),
            whole_mark=mark_of("<|img_thumbnail|>", token_id) if shows_whole else None,
            **settings.pixels(HALF, HALF, Pillow.Resampling.BILINEAR),
        )


def _tile_marks(most: int, token_id: TokenId) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(
            mark_of(f"<|img_row_{row}_col_{column}|>", token_id)
            for column in range(1, most // row + 1)
        )
        for row in range(1, most + 1)
    )
