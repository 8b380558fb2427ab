"""The picture processor of a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from core.vision.decode import Picture
from core.vision.processor import ImageProcessor, ProcessedImage, ResizePlan
from core.vision.square import SquareImageProcessor
from core.vision.tile_config import TokenId
from core.vision.tiles import TileImageProcessor


class PictureProcessor(Protocol):
    """From RGB pixels to a tower's patches; the repr of `config` has all that they depend on."""

    @property
    def config(self) -> object: ...

    @property
    def max_tokens(self) -> int:
        """Tokens the largest picture may cost."""
        ...

    def measure(self, width: int, height: int) -> ResizePlan:
        """Size and tokens of a picture of `width` x `height` pixels. Raises ImageError."""
        ...

    def process(self, picture: Picture) -> ProcessedImage:
        """Resize a picture and compute its key. Raises ImageError."""
        ...


def open_processor(
    folder: Path,
    config: Mapping[str, Any],
    max_tokens: int | None,
    token_id: TokenId = lambda spelling: None,
) -> PictureProcessor:
    """The processor of a model with vision; `config` is config.json, vision defaults included.

    `max_tokens` lowers the tokens of an image where that is possible; `token_id` looks up added
    tokens. Raises MissingFileError, BrokenConfigError.
    """
    if config.get("model_type") == "gemma3":
        return SquareImageProcessor.open(folder, config)
    if config.get("model_type") == "lfm2_vl":
        return TileImageProcessor.open(folder, config, max_tokens, token_id)
    return ImageProcessor.open(folder, config, max_tokens)
