"""Small pictures on disk, different in every pixel, as the window would store them."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from PIL import Image

from core.api.chat import ImagePart

SIZES = {"small": (64, 64), "wide": (128, 64), "tall": (64, 160), "large": (256, 256)}


def draw(path: Path, seed: int, size: tuple[int, int]) -> ImagePart:
    """Write a picture of noise at `path`; at these sizes the processor leaves its pixels alone."""
    noise = random.Random(seed).randbytes(3 * size[0] * size[1])
    Image.frombytes("RGB", size, noise).save(path, "PNG")
    return part_of(path)


def part_of(path: Path) -> ImagePart:
    """The file as it is now."""
    return ImagePart(digest=hashlib.sha256(path.read_bytes()).hexdigest(), path=str(path))
