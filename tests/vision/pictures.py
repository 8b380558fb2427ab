"""Pictures made up on the spot."""

from __future__ import annotations

import random

from PIL import Image


def noise(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Random pixels: any slip in order or rounding shows."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    data = random.Random(f"{seed} {width} {height} {mode}").randbytes(width * height * channels)
    return Image.frombytes(mode, (width, height), data)
