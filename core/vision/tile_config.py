"""The settings of LFM2-VL's image processor, as published, and the tokens between its tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from core.api.errors import BrokenConfigError
from core.vision.processor_config import MAX_TOKENS, read_settings

_MEAN = _STD = (0.5, 0.5, 0.5)
MOST_TILES = 64  # published: 10

TokenId = Callable[[str], int | None]
"""The id of an added token by its spelling."""


@dataclass(frozen=True, slots=True)
class TileConfig:
    """Sizes in pixels; a token is a square of `token_size`.

    Without tiles `max_tiles` is 0. `tile_marks` are the ids before a tile, by row and column,
    `whole_mark` is the id before the whole picture, which follows its tiles, or None without one.
    """

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
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale_factor: float
    resample: Pillow.Resampling
    do_rescale: bool
    do_normalize: bool
    keeps_most: bool = False
    """Narrow pictures respect `max_tokens` too, which the reference doesn't enforce."""

    @property
    def tokens_of_tile(self) -> int:
        """Tokens of a tile, its mark included."""
        return (self.tile_size // self.token_size) ** 2 + 1

    @property
    def tokens_of_whole(self) -> int:
        """Tokens at most of the whole picture after its tiles, its mark included."""
        return self.max_tokens + 1 if self.whole_mark is not None else 0

    @property
    def most_tokens(self) -> int:
        """Tokens of the largest picture."""
        of_tiles = self.max_tiles * self.tokens_of_tile + self.tokens_of_whole
        return max(self.max_tokens, of_tiles if self.max_tiles else 0)

    def with_max_tokens(self, limit: int | None) -> TileConfig:
        """The same with at most `limit` tokens a picture: fewer tiles, or none if fewer than four,
        which can't form a square, would be left."""
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


def read_tile_config(folder: Path, model: Mapping[str, Any], token_id: TokenId) -> TileConfig:
    """Read `folder`; `model` is its config.json, whose parts must agree on the patches.

    Raises MissingFileError, BrokenConfigError.
    """
    settings = read_settings(folder)
    try:
        return _from_settings(settings, model, token_id)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BrokenConfigError(
            f"{folder.name}: the image processor's settings make no sense."
        ) from error


def _from_settings(
    settings: Mapping[str, Any], model: Mapping[str, Any], token_id: TokenId
) -> TileConfig:
    """Raises BrokenConfigError where the files don't agree, ValueError and kin for nonsense."""

    def value(name: str, default: Any) -> Any:
        found = settings.get(name)
        return default if found is None else found

    patch, factor = int(value("encoder_patch_size", 16)), int(value("downsample_factor", 2))
    vision = model.get("vision_config") or {}
    pairs = (
        ("patch_size", patch, vision.get("patch_size", patch)),
        ("downsample_factor", factor, model.get("downsample_factor") or 2),
    )
    for name, found, expected in pairs:
        if found != expected:
            raise BrokenConfigError(
                f"The image processor has {name} {found}, the model {expected}."
            )
    low, high = int(value("min_image_tokens", 64)), int(value("max_image_tokens", 256))
    tiles = int(value("min_tiles", 2)), int(value("max_tiles", 10))
    tile, tolerance = int(value("tile_size", 512)), float(value("max_pixels_tolerance", 2.0))
    mean, std = (tuple(map(float, value(f"image_{name}", _MEAN))) for name in ("mean", "std"))
    if not math.isfinite(tolerance):
        raise ValueError("a tolerance is a number")
    if min(patch, factor, low, tile, tolerance, *tiles) <= 0 or low > high or tiles[0] > tiles[1]:
        raise ValueError("sizes are above zero, and the least is not above the most")
    if (len(mean), len(std)) != (3, 3) or 0 in std or tile % (patch * factor):
        raise ValueError("three colours, and tiles of whole tokens")
    if high > MAX_TOKENS or tiles[1] > MOST_TILES or tile > 2**13:
        raise ValueError("a picture of that size is refused")
    if not value("do_resize", True):
        raise ValueError("images that are not resized don't fit the tokens")
    splits = bool(value("do_image_splitting", True)) and tiles != (1, 1)
    marks = _tile_marks(tiles[1], token_id) if splits else ()
    whole = (
        _mark("<|img_thumbnail|>", token_id) if splits and value("use_thumbnail", True) else None
    )
    return TileConfig(
        patch_size=patch,
        token_size=patch * factor,
        min_tokens=low,
        max_tokens=high,
        tolerance=tolerance,
        tile_size=tile,
        min_tiles=tiles[0],
        max_tiles=tiles[1] if splits else 0,
        tile_marks=marks,
        whole_mark=whole,
        mean=mean,
        std=std,
        rescale_factor=float(value("rescale_factor", 1 / 255)),
        resample=Pillow.Resampling(value("resample", Pillow.Resampling.BILINEAR)),
        do_rescale=bool(value("do_rescale", True)),
        do_normalize=bool(value("do_normalize", True)),
    )


def _tile_marks(most: int, token_id: TokenId) -> tuple[tuple[int, ...], ...]:
    """The ids before tiles, by row and column, of all grids with at most so many tiles."""
    return tuple(
        tuple(
            _mark(f"<|img_row_{row}_col_{column}|>", token_id)
            for column in range(1, most // row + 1)
        )
        for row in range(1, most + 1)
    )


def _mark(spelling: str, token_id: TokenId) -> int:
    found = token_id(spelling)
    if found is None:
        raise BrokenConfigError(
            f"The tokenizer lacks {spelling}, which tells a picture's tiles apart."
        )
    return found
