"""The picture processor of a model folder, and those that see a picture at once.

Bit-equal to transformers' `Qwen2VLImageProcessorPil` and `Gemma3ImageProcessorPil`, the latter
without its crops of long pictures (pan and scan), which the published models disable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from core.api.prompt import Image
from core.vision.configs import (
    ProcessorConfig,
    Source,
    SquareConfig,
    TokenId,
    read_processor_config,
    read_square_config,
    read_tile_config,
)
from core.vision.decode import DecodedPicture
from core.vision.processor import (
    Grid,
    PictureProcessor,
    ProcessedImage,
    ResizePlan,
    check_size,
    pixels_of,
    smart_size,
)
from core.vision.tiles import TileImageProcessor


def open_processor(
    source: Source,
    config: Mapping[str, Any],
    max_tokens: int | None,
    token_id: TokenId = lambda spelling: None,
) -> PictureProcessor:
    """The processor of a model with vision; `config` is config.json, vision defaults included.

    `max_tokens` lowers the tokens of an image where that is possible; `token_id` looks up added
    tokens. Raises MissingFileError, BrokenConfigError.
    """
    if config.get("model_type") == "gemma3":
        return SquareImageProcessor(read_square_config(source, config))
    if config.get("model_type") == "lfm2_vl":
        tiles = read_tile_config(source, config, token_id)
        return TileImageProcessor(tiles.with_max_tokens(max_tokens))
    return ImageProcessor(read_processor_config(source, config).with_max_tokens(max_tokens))


class ImageProcessor(PictureProcessor):
    """Qwen2-VL and its kin: a picture in its own shape, as whole tokens."""

    config: ProcessorConfig

    @property
    def max_tokens(self) -> int:
        return self.config.max_pixels // self.config.token_size**2

    def measure(self, width: int, height: int) -> ResizePlan:
        check_size(width, height)
        config, unit = self.config, self.config.token_size
        limits = config.min_pixels, config.max_pixels
        new_height, new_width = smart_size(height, width, unit, limits)
        return ResizePlan(new_width, new_height, new_height // unit, new_width // unit)

    def process(self, picture: DecodedPicture) -> ProcessedImage:
        plan, merge = self.measure(*picture.size), self.config.merge_size
        data = picture.resized(plan.width, plan.height, self.config.resample)
        size = plan.width.to_bytes(8, "little") + plan.height.to_bytes(8, "little")
        return ProcessedImage(
            data=data,
            grids=(Grid(plan.rows * merge, plan.columns * merge),),
            image=Image(
                key=self._key(size, data),
                rows=plan.rows,
                columns=plan.columns,
                num_positions=max(plan.rows, plan.columns),
            ),
            to_patches=partial(self._patches, plan),
        )

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

    def _patches(self, plan: ResizePlan, data: bytes) -> Tensor:
        """RGB bytes [height, width, 3] to patches [patches, 3 x time x patch x patch]."""
        config = self.config
        patch, merge, time = config.patch_size, config.merge_size, config.temporal_patch_size
        floats = self._floats(pixels_of(data), 0)
        pixels = floats.view(3, plan.rows, merge, patch, plan.columns, merge, patch)
        # To (token row, token column, row in token, column in token, channel, y, x).
        ordered = pixels.permute(1, 4, 2, 5, 0, 3, 6).unsqueeze(5)
        repeated = ordered.expand(-1, -1, -1, -1, -1, time, -1, -1)
        return repeated.reshape(plan.tokens * merge * merge, 3 * time * patch * patch)


class SquareImageProcessor(PictureProcessor):
    """Gemma 3: every picture is resized to the same square."""

    config: SquareConfig

    @property
    def max_tokens(self) -> int:
        return self.config.tokens_per_side**2

    def measure(self, width: int, height: int) -> ResizePlan:
        check_size(width, height, math.inf)
        size, tokens = self.config.size, self.config.tokens_per_side
        return ResizePlan(size, size, tokens, tokens)

    def process(self, picture: DecodedPicture) -> ProcessedImage:
        plan = self.measure(*picture.size)
        data = picture.resized(plan.width, plan.height, self.config.resample)
        side = plan.width // self.config.patch_size
        return ProcessedImage(
            data=data,
            grids=(Grid(side, side),),
            image=Image(
                key=self._key(b"", data),
                rows=plan.rows,
                columns=plan.columns,
                num_positions=plan.tokens,
                in_line=True,
            ),
            to_patches=self._patches,
        )

    def _patches(self, data: bytes) -> Tensor:
        """RGB bytes [size, size, 3] to patches [side * side, 3 x patch x patch], row by row."""
        size, patch = self.config.size, self.config.patch_size
        side = size // patch
        # A tower that is no multiple of its patches leaves out the last rows and columns.
        floats = self._floats(pixels_of(data), 0).view(3, size, size)
        whole = floats[:, : side * patch, : side * patch]
        pixels = whole.reshape(3, side, patch, side, patch)
        return pixels.permute(1, 3, 0, 2, 4).reshape(side * side, 3 * patch * patch)
