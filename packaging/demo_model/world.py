"""The demo model's world: what a picture can hold and how it is drawn.

A scene is one to four coloured shapes on a 3 x 3 grid. What is said about scenes is
`conversations.py`; how a picture becomes patches is `pictures.py`.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
COLOURS = {
    "red": (220, 38, 38),
    "orange": (245, 140, 20),
    "yellow": (245, 215, 40),
    "green": (34, 150, 70),
    "blue": (40, 90, 220),
    "purple": (130, 55, 170),
    "pink": (245, 130, 190),
    "black": (25, 25, 28),
}
SIZES = ("small", "large")
PLACES = (
    "top left",
    "top middle",
    "top right",
    "middle left",
    "centre",
    "middle right",
    "bottom left",
    "bottom middle",
    "bottom right",
)
BACKGROUNDS = ((255, 255, 255), (240, 240, 240), (250, 243, 225), (225, 238, 248), (228, 242, 228))
MOST_THINGS = 4
# Radius as a share of the cell: the gap between the two ranges keeps the sizes apart.
RADII = {"small": (0.20, 0.26), "large": (0.36, 0.44)}


@dataclass(frozen=True)
class Thing:
    """One shape of a scene: what it is and which of the nine cells it lies in."""

    shape: str
    colour: str
    size: str
    cell: int


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]

    def key(self) -> str:
        """A text that is equal for equal scenes."""
        return "|".join(f"{t.cell}{t.size}{t.colour}{t.shape}" for t in self.things)


def is_held_out(scene: Scene) -> bool:
    """True for validation and test scenes: one in ten, by its contents alone."""
    return hashlib.sha256(scene.key().encode()).digest()[0] % 10 == 0


def draw_scene_from(rng: random.Random, held_out: bool) -> Scene:
    """A scene of one to MOST_THINGS things in different cells, held out or not."""
    while True:
        count = rng.randint(1, MOST_THINGS)
        cells = sorted(rng.sample(range(len(PLACES)), count))
        things = [
            Thing(rng.choice(SHAPES), rng.choice(list(COLOURS)), rng.choice(SIZES), cell)
            for cell in cells
        ]
        scene = Scene(tuple(things))
        if is_held_out(scene) == held_out:
            return scene


def outline(shape: str, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    if shape == "star":
        turns = [(i * math.pi / 5 - math.pi / 2, 1.1 if i % 2 == 0 else 0.45) for i in range(10)]
        return [
            (x + radius * r * math.cos(turn), y + radius * r * math.sin(turn)) for turn, r in turns
        ]
    corners = {
        "square": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
        "triangle": ((0, -1), (1, 0.8), (-1, 0.8)),
        "diamond": ((0, -1.1), (0.8, 0), (0, 1.1), (-0.8, 0)),
    }[shape]
    return [(x + radius * dx, y + radius * dy) for dx, dy in corners]


Colour = tuple[int, int, int]


def draw_thing(
    draw: ImageDraw.ImageDraw, shape: str, at: tuple[float, float], radius: float, fill: Colour
) -> None:
    x, y = at
    if shape == "circle":
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    elif shape == "cross":
        arm = radius * 0.34
        draw.rectangle((x - radius, y - arm, x + radius, y + arm), fill=fill)
        draw.rectangle((x - arm, y - radius, x + arm, y + radius), fill=fill)
    else:
        draw.polygon(outline(shape, x, y, radius), fill=fill)


def shaded(rng: random.Random, colour: Colour, spread: int) -> Colour:
    """`colour` moved by at most `spread` steps of 255 in each channel."""
    red, green, blue = (max(0, min(255, c + rng.randint(-spread, spread))) for c in colour)
    return red, green, blue


def draw_scene(scene: Scene, rng: random.Random, size: tuple[int, int] = (480, 480)) -> Image.Image:
    """A picture of `scene`, `size` = (width, height) pixels; jitter and shades come from `rng`."""
    width, height = size
    picture = Image.new("RGB", size, shaded(rng, rng.choice(BACKGROUNDS), 5))
    draw = ImageDraw.Draw(picture)
    cell_width, cell_height = width / 3, height / 3
    cell_size = min(cell_width, cell_height)
    for thing in scene.things:
        low, high = RADII[thing.size]
        radius = cell_size * rng.uniform(low, high)
        # A star's tips reach 1.1 radii: what is left of the cell is the room to move in.
        slack_x, slack_y = (max(0.0, side / 2 - 1.1 * radius) for side in (cell_width, cell_height))
        x = (thing.cell % 3 + 0.5) * cell_width + rng.uniform(-0.7, 0.7) * slack_x
        y = (thing.cell // 3 + 0.5) * cell_height + rng.uniform(-0.7, 0.7) * slack_y
        fill = shaded(rng, COLOURS[thing.colour], 12)
        draw_thing(draw, thing.shape, (x, y), radius, fill)
    return picture


def random_size(rng: random.Random) -> tuple[int, int]:
    """A picture size: mostly square, now and then up to 5:4 or 4:5."""
    width = rng.choice((96, 192, 240, 288, 384, 480))
    # Below 192 the family's rule would grow the long side to a fourth column of tokens.
    if width < 192 or rng.random() < 0.8:
        return width, width
    return width, round(width * rng.uniform(0.8, 1.25))
