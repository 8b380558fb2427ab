"""Draws the three sample pictures that ship beside the demo model."""

from __future__ import annotations

import random

from published_model import REPOSITORY
from world import PLACES, Scene, Thing, draw_scene

SAMPLES = {
    "three-shapes": (
        Thing("circle", "red", "large", PLACES.index("top left")),
        Thing("star", "blue", "small", PLACES.index("centre")),
        Thing("triangle", "green", "large", PLACES.index("bottom right")),
    ),
    "four-shapes": (
        Thing("star", "yellow", "large", PLACES.index("top middle")),
        Thing("square", "purple", "small", PLACES.index("middle left")),
        Thing("circle", "orange", "large", PLACES.index("middle right")),
        Thing("diamond", "black", "small", PLACES.index("bottom middle")),
    ),
    "two-crosses": (
        Thing("cross", "pink", "large", PLACES.index("top right")),
        Thing("square", "blue", "large", PLACES.index("middle left")),
        Thing("cross", "green", "small", PLACES.index("bottom middle")),
    ),
}


def main() -> None:
    folder = REPOSITORY / "resources" / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, things) in enumerate(SAMPLES.items(), start=1):
        picture = draw_scene(Scene(things), random.Random(seed), (480, 480))
        picture.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
