"""Gemma 3's picture processor: every picture is resized to the same square.

Bit-equal to transformers' Pillow-based `Gemma3ImageProcessorPil` without its crops of long pictures
(pan and scan), which the published models disable.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image as Pillow
from torch import Tensor

from core.api.errors import BrokenConfigError, ImageEmptyError
from core.api.prompt import Image
from core.vision.decode import Picture
from core.vision.processor import Grid, ProcessedImage, ResizePlan, levels
from core.vision.processor_config import read_settings

# What transformers takes for keys that the files leave out.
_MEAN = _STD = (0.5, 0.5, 0.5)
_TOKENS = 256


@dataclass(frozen=True, slots=True)
class SquareConfig:
    """Sizes are in pixels; the square of `size` becomes `tokens_per_side` squared tokens."""

    size: int
    patch_size: int
    tokens_per_side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale_factor: float
    resample: Pillow.Resampling
    do_rescale: bool
    do_normalize: bool


class SquareImageProcessor:
    """The processor of Gemma 3."""

    def __init__(self, config: SquareConfig) -> None:
        self.config = config
        self._levels = levels(config)
        self._settings = hashlib.blake2b(repr(config).encode(), digest_size=32).digest()

    @classmethod
    def open(cls, folder: Path, config: Mapping[str, Any]) -> SquareImageProcessor:
        """Read `folder`. `config` is config.json, which has the square's size and tokens.

        Raises MissingFileError, BrokenConfigError.
        """
        settings = read_settings(folder)
        try:
            read = _from_settings(settings, config)
        except (AttributeError, TypeError, ValueError) as error:
            raise BrokenConfigError(
                f"{folder.name}: the image processor's settings make no sense."
            ) from error
        if settings.get("do_pan_and_scan"):
            raise BrokenConfigError(
                f"{folder.name}: cutting long pictures into crops (pan and scan) is not supported."
            )
        return cls(read)

    @property
    def max_tokens(self) -> int:
        """Tokens of any picture."""
        return self.config.tokens_per_side**2

    def measure(self, width: int, height: int) -> ResizePlan:
        """The square. Raises ImageEmptyError."""
        if min(width, height) < 1:
            raise ImageEmptyError(f"The picture measures {width} x {height} pixels.")
        size, tokens = self.config.size, self.config.tokens_per_side
        return ResizePlan(size, size, tokens, tokens)

    def process(self, picture: Picture) -> ProcessedImage:
        """Resize a picture and compute its key. Raises ImageError."""
        plan = self.measure(*picture.size)
        data = picture.resized(plan.width, plan.height, self.config.resample)
        digest = hashlib.blake2b(self._settings, digest_size=32, person=b"waymark image")
        digest.update(data)
        side = plan.width // self.config.patch_size
        return ProcessedImage(
            data=data,
            grids=(Grid(side, side),),
            image=Image(
                key=digest.digest(),
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
        rgb = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(size, size, 3)
        channels = [self._levels[channel][rgb[..., channel].int()] for channel in range(3)]
        # A tower that is no multiple of its patches leaves out the last rows and columns.
        whole = torch.stack(channels)[:, : side * patch, : side * patch]
        pixels = whole.reshape(3, side, patch, side, patch)
        return pixels.permute(1, 3, 0, 2, 4).reshape(side * side, 3 * patch * patch)


def _from_settings(settings: Mapping[str, Any], model: Mapping[str, Any]) -> SquareConfig:
    """Raises BrokenConfigError where the two files don't agree, ValueError and kin for nonsense."""

    def value(name: str, default: Any) -> Any:
        found = settings.get(name)
        return default if found is None else found

    vision = model.get("vision_config") or {}
    size, patch = int(vision.get("image_size", 224)), int(vision.get("patch_size", 16))
    tokens = int(model.get("mm_tokens_per_image") or _TOKENS)
    square = value("size", {"height": size, "width": size})
    if (square.get("height"), square.get("width")) != (size, size):
        raise BrokenConfigError(f"The image processor makes {square}, the model sees {size}.")
    if value("image_seq_length", tokens) != tokens:
        raise BrokenConfigError("The image processor and the model count an image's tokens apart.")
    mean, std = (tuple(map(float, value(f"image_{name}", _MEAN))) for name in ("mean", "std"))
    if min(size, patch, tokens) < 1 or (len(mean), len(std)) != (3, 3) or 0 in std:
        raise ValueError("sizes and deviations are above zero")
    if not value("do_resize", True):
        raise ValueError("images that are not resized fit no square")
    return SquareConfig(
        size=size,
        patch_size=patch,
        tokens_per_side=math.isqrt(tokens),
        mean=mean,
        std=std,
        rescale_factor=float(value("rescale_factor", 1 / 255)),
        resample=Pillow.Resampling(value("resample", Pillow.Resampling.BILINEAR)),
        do_rescale=bool(value("do_rescale", True)),
        do_normalize=bool(value("do_normalize", True)),
    )
