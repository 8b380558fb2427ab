"""What lies in the nine places of a picture."""

from __future__ import annotations

import random

from wording import with_article
from world import PLACES, Scene, Thing


def thing_at(scene: Scene, cell: int) -> Thing | None:
    """What lies in a cell."""
    return next((thing for thing in scene.things if thing.cell == cell), None)


def some_cell(rng: random.Random, scene: Scene, share_full: float) -> int:
    """A cell that is full in about `share_full` of the calls."""
    if rng.random() < share_full:
        return rng.choice(scene.things).cell
    return rng.randrange(len(PLACES))


def content_of(scene: Scene, cell: int) -> str:
    """What a cell holds, as a clause."""
    thing = thing_at(scene, cell)
    if thing is None:
        return f"the {PLACES[cell]} holds nothing"
    name = with_article(f"{thing.size} {thing.colour} {thing.shape}")
    return f"the {PLACES[cell]} holds {name}"
