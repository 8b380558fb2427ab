"""Questions about a picture that are answered with yes or no, and the reason why."""

from __future__ import annotations

import random
from collections.abc import Callable

from wording import Handle, Question, asked_place, at_place, handle_of, with_article
from world import COLOURS, PLACES, SHAPES, SIZES, Scene, Thing

Maker = Callable[[random.Random, Scene], Question | None]


def thing_at(scene: Scene, cell: int) -> Thing | None:
    return next((thing for thing in scene.things if thing.cell == cell), None)


def some_cell(rng: random.Random, scene: Scene, share_full: float) -> int:
    """A cell that is full in about `share_full` of the calls."""
    if rng.random() < share_full:
        return rng.choice(scene.things).cell
    return rng.randrange(len(PLACES))


def content_of(scene: Scene, cell: int) -> str:
    thing = thing_at(scene, cell)
    if thing is None:
        return f"the {PLACES[cell]} holds nothing"
    name = with_article(f"{thing.size} {thing.colour} {thing.shape}")
    return f"the {PLACES[cell]} holds {name}"


def false_pair(rng: random.Random, scene: Scene) -> tuple[str, str]:
    """A shape and a colour that are unlikely to go together in the scene."""
    if rng.random() < 0.7:
        # Both words true of something, but not of one thing: the hard "no".
        kind = rng.choice((rng.choice(scene.things).shape, rng.choice(SHAPES)))
        return kind, rng.choice(scene.things).colour
    return rng.choice(SHAPES), rng.choice(list(COLOURS))


def yes_there(rng: random.Random, scene: Scene) -> Question:
    """Is there a star, a red shape, a red star?"""
    thing, yes = rng.choice(scene.things), rng.random() < 0.5
    way = rng.choice(("shape", "colour", "both", "both"))
    for _ in range(30):
        kind, tint = (thing.shape, thing.colour) if yes else false_pair(rng, scene)
        given = {"shape": {"shape": kind}, "colour": {"colour": tint}}.get(
            way, {"shape": kind, "colour": tint}
        )
        handle = handle_of(scene, **given)
        if bool(handle.things) == yes:
            break
    name = with_article(handle.words)
    asked = rng.choice(
        (
            f"Is there {name}",
            f"Is there {name} in the picture",
            f"Do you see {name}",
            f"Can you see {name}",
            f"Does the picture have {name}",
        )
    )
    thought = f"I look for {name}."
    return verdict_on(asked, name, bool(handle.things), thought)


def unique_handle(rng: random.Random, scene: Scene, ways: tuple[str, ...]) -> Handle | None:
    """Words that pick exactly one thing, if any of the ways does."""
    for _ in range(10):
        thing, way = rng.choice(scene.things), rng.choice(ways)
        handle = handle_of(scene, **{name: getattr(thing, name) for name in way.split("+")})
        if len(handle.things) == 1:
            return handle
    return None


def verdict_on(asked: str, claim: str, true: bool, thought: str) -> Question:
    """The claim of the question said again and looked up: "… is there, so yes"."""
    clause, verdict = (f"{claim} is there", "yes") if true else (f"{claim} is not there", "no")
    return Question("yes_no", asked, clause, verdict, thought)


def yes_trait(rng: random.Random, scene: Scene) -> Question | None:
    """Is the star red? Is the red shape small?"""
    trait = rng.choice(("colour", "colour", "size"))
    ways = ("shape", "size+shape") if trait == "colour" else ("shape", "colour", "colour+shape")
    handle = unique_handle(rng, scene, ways)
    if handle is None:
        return None
    truth = getattr(handle.things[0], trait)
    values = list(COLOURS) if trait == "colour" else list(SIZES)
    near = getattr(rng.choice(scene.things), trait)
    guess = near if rng.random() < 0.5 else rng.choice(values)
    spoken = truth if rng.random() < 0.45 else guess
    asked = f"Is the {handle.words} {spoken}"
    size_word = next((f"{size} " for size in SIZES if handle.words.startswith(f"{size} ")), "")
    claim = f"the {size_word}{spoken} {handle.words.removeprefix(size_word)}"
    return verdict_on(asked, claim, spoken == truth, f"I look for the {handle.words}.")


def yes_where(rng: random.Random, scene: Scene) -> Question | None:
    handle = unique_handle(rng, scene, ("shape", "colour", "colour+shape"))
    if handle is None:
        return None
    true = handle.things[0].cell
    other = rng.choice(scene.things).cell if rng.random() < 0.5 else rng.randrange(len(PLACES))
    cell = true if rng.random() < 0.5 else other
    asked = f"Is the {handle.words} {asked_place(rng, cell)}"
    claim = f"the {handle.words} {at_place(cell)}"
    return verdict_on(asked, claim, cell == true, f"I look for the {handle.words}.")


def yes_at(rng: random.Random, scene: Scene) -> Question:
    """Is there anything in the centre? Is the shape there a star?"""
    cell = some_cell(rng, scene, 0.3)
    thing = thing_at(scene, cell)
    spoken, thought = asked_place(rng, cell), f"I look {at_place(cell)}."
    if thing is None or rng.random() < 0.5:
        asked = f"Is there {rng.choice(('anything', 'something', 'a shape'))} {spoken}"
        return Question("yes_no", asked, content_of(scene, cell), "yes" if thing else "no", thought)
    guess = rng.choice([thing.shape, rng.choice(scene.things).shape, rng.choice(SHAPES)])
    asked = f"Is the shape {spoken} {with_article(guess)}"
    return verdict_on(asked, f"the {guess} {at_place(cell)}", guess == thing.shape, thought)


def yes_no(rng: random.Random, scene: Scene) -> Question | None:
    """One of the four sorts of yes / no questions."""
    makers: tuple[Maker, ...] = (yes_there, yes_trait, yes_where, yes_at)
    maker = rng.choices(makers, (4, 3, 2, 2))[0]
    return maker(rng, scene)
