"""A picture as the vision tower takes it: the family's resize, normalisation and patch order."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

SETTINGS = json.loads(
    (Path(__file__).resolve().parent / "published" / "preprocessor_config.json").read_text()
)
PATCH: int = SETTINGS["patch_size"]
MERGE: int = SETTINGS["merge_size"]
FACTOR = PATCH * MERGE


def resized(width: int, height: int) -> tuple[int, int]:
    """The (width, height) the family's rule brings a picture to (`smart_resize`)."""
    least, most = SETTINGS["size"]["shortest_edge"], SETTINGS["size"]["longest_edge"]
    new_width, new_height = (round(side / FACTOR) * FACTOR for side in (width, height))
    if new_width * new_height > most:
        shrink = math.sqrt(width * height / most)
        sides = [max(1, math.floor(side / shrink / FACTOR)) for side in (width, height)]
        return sides[0] * FACTOR, sides[1] * FACTOR
    if new_width * new_height < least:
        grow = math.sqrt(least / (width * height))
        sides = [math.ceil(side * grow / FACTOR) for side in (width, height)]
        return sides[0] * FACTOR, sides[1] * FACTOR
    return new_width, new_height


def to_pixels(picture: Image.Image) -> np.ndarray:
    size = resized(*picture.size)
    return np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BICUBIC))


def to_patches(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [N, height, width, 3] -> float [N, patches, 1536] in the merger's order."""
    count, height, width, _ = pixels.shape
    values = pixels.float().div(127.5).sub(1.0)
    rows, columns = height // FACTOR, width // FACTOR
    blocks = values.view(count, rows, MERGE, PATCH, columns, MERGE, PATCH, 3)
    # [N, block row, block column, row, column, channel, y, x]
    blocks = blocks.permute(0, 1, 4, 2, 5, 7, 3, 6)
    twice = blocks.unsqueeze(6).expand(*blocks.shape[:6], 2, PATCH, PATCH)
    return twice.reshape(count, rows * columns * MERGE * MERGE, 3 * 2 * PATCH * PATCH)


def grid_of(picture: Image.Image) -> tuple[int, int, int]:
    width, height = resized(*picture.size)
    return 1, height // PATCH, width // PATCH


def stack_pictures(pictures: Sequence[Image.Image]) -> tuple[torch.Tensor, torch.Tensor]:
    """Flat patches [sum of patches, 1536] and grids [N, 3], as the published model takes them."""
    flat = [to_patches(torch.from_numpy(to_pixels(p).copy())[None])[0] for p in pictures]
    return torch.cat(flat), torch.tensor([grid_of(picture) for picture in pictures])
