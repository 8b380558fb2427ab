"""The picture processors of the families.

Bit-equal to transformers' `Qwen2VLImageProcessorPil`, `Gemma4ImageProcessorPil` and, without crops
of long pictures (pan and scan), `Gemma3ImageProcessorPil`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from core.vision.configs import (
    PooledConfig,
    ProcessorConfig,
    Source,
    SquareConfig,
    TokenId,
    read_patch_config,
    read_pooled_config,
    read_processor_config,
    read_square_config,
)
from core.vision.processor import (
    Grid,
    PictureProcessor,
    ResizePlan,
    check_size,
    pixels_of,
    smart_size,
)
from core.vision.slices import SliceImageProcessor, read_slice_config
from core.vision.tiles import TileImageProcessor, read_tile_config


def open_processor(
    source: Source,
    config: Mapping[str, Any],
    max_tokens: int | None,
    token_id: TokenId = lambda spelling: None,
) -> PictureProcessor:
    """`config` has vision defaults; `max_tokens` lowers the tokens of an image where possible.
    Raises MissingFileError, BrokenConfigError."""
    if config.get("model_type") == "gemma3":
        return SquareImageProcessor(read_square_config(source, config))
    if config.get("model_type") in {"gemma4", "gemma4_unified"}:
        return PooledImageProcessor(read_pooled_config(source, config).with_max_tokens(max_tokens))
    if config.get("model_type") == "lfm2_vl":
        tiles = read_tile_config(source, config, token_id)
        return TileImageProcessor(tiles.with_max_tokens(max_tokens))
    if config.get("model_type") in {"minicpmv4_6", "minicpmv4_7"}:
        slices = read_slice_config(source, config, token_id).with_max_tokens(max_tokens)
        return SliceImageProcessor(slices, on_canvas=config["model_type"] == "minicpmv4_7")
    if config.get("model_type") == "nemotron_h_omni":
        return PatchImageProcessor(read_patch_config(source, config).with_max_tokens(max_tokens))
    settings = read_processor_config(source, config).with_max_tokens(max_tokens)
    in_line = config.get("model_type") == "lfm3_vl"
    return ImageProcessor(settings, in_line=in_line)


class ImageProcessor(PictureProcessor):
    """Qwen2-VL and its kin: a picture in its own shape; with `in_line` (LFM3-VL) at positions in a
    line."""

    config: ProcessorConfig

    def __init__(self, config: ProcessorConfig, *, in_line: bool = False) -> None:
        super().__init__(config)
        self._in_line = in_line

    @property
    def max_tokens(self) -> int:
        return self.config.max_pixels // self.config.token_size**2

    def measure(self, width: int, height: int) -> ResizePlan:
        check_size(width, height)
        config, unit = self.config, self.config.token_size
        new_height, new_width = self._size(height, width)
        rows, columns = new_height // unit, new_width // unit
        return ResizePlan(
            new_width,
            new_height,
            rows,
            columns,
            (Grid(rows * config.merge_size, columns * config.merge_size),),
            partial(self._patches, rows, columns),
            ((new_width, new_height),),
            _size_bytes(new_width, new_height),
            self._in_line,
        )

    def _size(self, height: int, width: int) -> tuple[int, int]:
        limits = self.config.min_pixels, self.config.max_pixels
        return smart_size(height, width, self.config.token_size, limits)

    def _settings_of_key(self) -> str:
        """Pixel limits only affect the size."""
        config = self.config
        shown = (
            config.patch_size,
            config.temporal_patch_size,
            config.merge_size,
            config.mean,
            config.std,
            config.rescale_factor if config.do_rescale else None,
            config.do_normalize,
        )
        return repr(shown)

    def _patches(self, rows: int, columns: int, data: bytes) -> Tensor:
        """[height, width, 3] to [patches, 3 x time x patch x patch]."""
        config = self.config
        patch, merge, time = config.patch_size, config.merge_size, config.temporal_patch_size
        floats = self._floats(pixels_of(data), 0)
        pixels = floats.view(3, rows, merge, patch, columns, merge, patch)
        # To (token row, token column, row in token, column in token, channel, y, x).
        ordered = pixels.permute(1, 4, 2, 5, 0, 3, 6).unsqueeze(5)
        repeated = ordered.expand(-1, -1, -1, -1, -1, time, -1, -1)
        return repeated.reshape(-1, 3 * time * patch * patch)


class PatchImageProcessor(ImageProcessor):
    """Nemotron Omni: about a picture's own number of patches, at positions in a line. The reference
    resizes floats, which go beyond black and white; bytes don't."""

    def __init__(self, config: ProcessorConfig) -> None:
        super().__init__(config, in_line=True)

    def _size(self, height: int, width: int) -> tuple[int, int]:
        patch, merge = self.config.patch_size, self.config.merge_size
        low, high = (each // patch**2 for each in (self.config.min_pixels, self.config.max_pixels))
        sides = [round(each / patch + 0.5) for each in (height, width)]
        factor = min(math.sqrt(high / math.prod(sides)), 1.0)
        sides = [max(1, math.floor(factor * side)) for side in sides]
        if high > low > math.prod(sides):
            factor = math.sqrt(low / math.prod(sides))
            sides = [math.ceil(factor * side) for side in sides]
        for place in (0, 1):
            side, other = sides[place], sides[1 - place]
            up = -(-side // merge) * merge
            sides[place] = up if up * other <= high else max(merge, side // merge * merge)
        # The reference exceeds the limit for narrow pictures.
        longer = max(merge, high // min(sides) // merge * merge)
        new_height, new_width = (min(side, longer) * patch for side in sides)
        return new_height, new_width


class SquareImageProcessor(PictureProcessor):
    config: SquareConfig

    @property
    def max_tokens(self) -> int:
        return self.config.tokens_per_side**2

    def measure(self, width: int, height: int) -> ResizePlan:
        check_size(width, height, math.inf)
        size, tokens = self.config.size, self.config.tokens_per_side
        side = size // self.config.patch_size
        grids = (Grid(side, side),)
        return ResizePlan(size, size, tokens, tokens, grids, self._patches, ((size, size),), b"")

    def _patches(self, data: bytes) -> Tensor:
        """[size, size, 3] to [side * side, 3 x patch x patch], row by row."""
        size, patch = self.config.size, self.config.patch_size
        side = size // patch
        # A tower that is no multiple of its patches leaves out the last rows and columns.
        floats = self._floats(pixels_of(data), 0).view(3, size, size)
        whole = floats[:, : side * patch, : side * patch]
        pixels = whole.reshape(3, side, patch, side, patch)
        return pixels.permute(1, 3, 0, 2, 4).reshape(side * side, 3 * patch * patch)


class PooledImageProcessor(PictureProcessor):
    config: PooledConfig

    @property
    def max_tokens(self) -> int:
        return self.config.max_tokens

    def measure(self, width: int, height: int) -> ResizePlan:
        """Sides in whole tokens, rounded down; a side of none becomes one token, the other the
        aspect ratio rounded down."""
        check_size(width, height, math.inf)
        config, unit = self.config, self.config.token_size
        most = config.max_tokens * config.pooling**2 * config.patch_size**2
        factor = math.sqrt(most / (height * width))
        rows, columns = (math.floor(factor * each / unit) for each in (height, width))
        if rows == 0:
            rows, columns = 1, min(width // height, config.max_tokens)
        elif columns == 0:
            rows, columns = min(height // width, config.max_tokens), 1
        size = columns * unit, rows * unit
        return ResizePlan(
            *size,
            rows,
            columns,
            (Grid(rows * config.pooling, columns * config.pooling),),
            partial(self._patches, *size),
            (size,),
            _size_bytes(*size),
        )

    def _settings_of_key(self) -> str:
        """The limit of tokens only affects the size."""
        return repr(replace(self.config, max_tokens=0))

    def _patches(self, width: int, height: int, data: bytes) -> Tensor:
        """[height, width, 3] to [patches, patch x patch x 3], row by row."""
        return self._patches_of(data, self.config.patch_size, (1, 1, height, width))


def _size_bytes(width: int, height: int) -> bytes:
    return width.to_bytes(8, "little") + height.to_bytes(8, "little")
