"""Questions about a picture in varied wording, each with its one right answer in fixed wording."""

from __future__ import annotations

import random

from picture_verdicts import Maker, content_of, some_cell, yes_no
from wording import (
    NUMBERS,
    Handle,
    Question,
    asked_place,
    at_place,
    full_name,
    handle_of,
    i_see,
    list_things,
    listing,
    with_article,
)
from world import COLOURS, SHAPES, SIZES, Scene, Thing

TIMES = {2: "twice", 3: "three times", 4: "four times"}


def pick_handle(rng: random.Random, scene: Scene, ways: tuple[str, ...]) -> Handle:
    """Words for a thing: mostly one that is there alone, else several or none."""
    missing, several = rng.random() < 0.1, rng.random() < 0.3
    for _ in range(20):
        thing = rng.choice(scene.things)
        shape, colour, size = thing.shape, thing.colour, thing.size
        if missing:
            shape, colour, size = (
                rng.choice(kinds) for kinds in (SHAPES, tuple(COLOURS), tuple(SIZES))
            )
        properties = {"shape": shape, "colour": colour, "size": size}
        way = rng.choice(ways)
        handle = handle_of(scene, **{name: properties[name] for name in way.split("+")})
        if missing != bool(handle.things) and (missing or several or len(handle.things) == 1):
            return handle
    return handle


def not_one(kind: str, asked: str, handle: Handle, thought: str) -> Question | None:
    if not handle.things:
        return Question(kind, asked, f"the {handle.words} is not there", thought=thought)
    if len(handle.things) > 1:
        named = listing([full_name(thing) for thing in handle.things])
        clause = f"the {handle.words} is there {TIMES[len(handle.things)]}: {named}"
        return Question(kind, asked, clause, thought=thought)
    return None


def describe(rng: random.Random, scene: Scene) -> Question:
    asked, mark = rng.choice(
        (
            ("Describe the picture", "."),
            ("Describe this picture", "."),
            ("Please describe the picture", "."),
            ("Can you describe the picture", "?"),
            ("What is in the picture", "?"),
            ("What is in this picture", "?"),
            ("What can you see", "?"),
            ("What do you see in the picture", "?"),
            ("What is shown here", "?"),
            ("What does the picture show", "?"),
            ("Tell me what is in the picture", "."),
            ("Tell me what you see", "."),
        )
    )
    clause = list_things(scene.things, "shape", "shapes")
    return Question("describe", asked, clause, thought="I go through the picture.", mark=mark)


def count(rng: random.Random, scene: Scene) -> Question:
    """How many shapes, or how many of a kind."""
    ways: tuple[dict[str, str], ...] = (
        {},
        {},
        {"shape": rng.choice(SHAPES)},
        {"colour": rng.choice(list(COLOURS))},
    )
    given = rng.choice(ways)
    if given and rng.random() < 0.75:
        thing = rng.choice(scene.things)
        given = {name: getattr(thing, name) for name in given}
    handle = handle_of(scene, **given)
    asked = rng.choice(
        (
            f"How many {handle.plural} are there",
            f"How many {handle.plural} are in the picture",
            f"How many {handle.plural} do you see",
            f"How many {handle.plural} can you see",
            f"How many {handle.plural} does the picture have",
            f"Count the {handle.plural}",
            f"Are there {rng.choice(NUMBERS[2:])} {handle.plural}",
        )
    )
    clause = i_see(len(handle.things), handle.words, handle.plural)
    thought = f"I count the {handle.plural}."
    mark = "." if asked.startswith("Count") else "?"
    return Question("count", asked, clause, thought=thought, mark=mark)


def by_place(rng: random.Random, scene: Scene) -> tuple[str, str, Thing]:
    """A thing named by its place: as asked, as answered."""
    thing = rng.choice(scene.things)
    noun = rng.choice(("shape", "shape", "thing", "object"))
    return (f"{noun} {asked_place(rng, thing.cell)}", f"the shape {at_place(thing.cell)}", thing)


def colour(rng: random.Random, scene: Scene) -> Question:
    handle = None
    if rng.random() < 0.45:
        words, said, thing = by_place(rng, scene)
    else:
        handle = pick_handle(rng, scene, ("shape", "shape", "shape", "size+shape", "size"))
        words, said = handle.words, f"the {handle.words}"
    asked = rng.choice(
        (
            f"What colour is the {words}",
            f"What colour is the {words}",
            f"Which colour is the {words}",
            f"What is the colour of the {words}",
            f"Which colour does the {words} have",
            f"What colour does the {words} have",
        )
    )
    thought = f"I look for {said}."
    if handle:
        other = not_one("colour", asked, handle, thought)
        if other:
            return other
        thing = handle.things[0]
    return Question("colour", asked, f"{said} is {thing.colour}", thought=thought)


def shape(rng: random.Random, scene: Scene) -> Question:
    if rng.random() < 0.45:
        thing = rng.choice(scene.things)
        place, said = asked_place(rng, thing.cell), f"the shape {at_place(thing.cell)}"
        forms = (f"What shape is {place}", f"Which shape is {place}", f"What is the shape {place}")
        clause = f"{said} is {with_article(thing.shape)}"
        return Question("shape", rng.choice(forms), clause, thought=f"I look for {said}.")
    handle = pick_handle(rng, scene, ("colour", "colour", "colour", "size+colour", "size"))
    adjective = handle.words.removesuffix(" shape")
    asked = rng.choice(
        (
            f"What shape is {adjective}",
            f"Which shape is {adjective}",
            f"What is the {handle.words}",
            f"What is the {adjective} thing",
            f"What shape is the {adjective} one",
            f"What shape is the {adjective} thing",
        )
    )
    thought = f"I look for the {handle.words}."
    other = not_one("shape", asked, handle, thought)
    if other:
        return other
    clause = f"the {handle.words} is {with_article(handle.things[0].shape)}"
    return Question("shape", asked, clause, thought=thought)


WHERE_WAYS = ("shape", "colour", "colour+shape", "colour+shape", "size+shape", "size+colour+shape")


def where(rng: random.Random, scene: Scene) -> Question:
    handle = pick_handle(rng, scene, WHERE_WAYS)
    asked = rng.choice(
        (
            f"Where is the {handle.words}",
            f"Where is the {handle.words}",
            f"Where can I find the {handle.words}",
            f"Where do you see the {handle.words}",
            f"Where in the picture is the {handle.words}",
            f"In which place is the {handle.words}",
        )
    )
    thought = f"I look for the {handle.words}."
    other = not_one("where", asked, handle, thought)
    if other:
        return other
    clause = f"the {handle.words} is {at_place(handle.things[0].cell)}"
    return Question("where", asked, clause, thought=thought)


def size(rng: random.Random, scene: Scene) -> Question:
    handle = pick_handle(rng, scene, ("shape", "colour", "colour+shape"))
    asked = rng.choice(
        (
            f"How big is the {handle.words}",
            f"What size is the {handle.words}",
            f"How large is the {handle.words}",
            f"Is the {handle.words} small or large",
        )
    )
    thought = f"I look for the {handle.words}."
    other = not_one("size", asked, handle, thought)
    if other:
        return other
    return Question(
        "size", asked, f"the {handle.words} is {handle.things[0].size}", thought=thought
    )


def place(rng: random.Random, scene: Scene) -> Question:
    cell = some_cell(rng, scene, 0.7)
    spoken = asked_place(rng, cell)
    forms = (f"What is {spoken}", f"What do you see {spoken}", f"What can you see {spoken}")
    thought = f"I look {at_place(cell)}."
    return Question("place", rng.choice(forms), content_of(scene, cell), thought=thought)


MAKERS: dict[str, Maker] = {
    "describe": describe,
    "count": count,
    "colour": colour,
    "shape": shape,
    "where": where,
    "size": size,
    "place": place,
    "yes_no": yes_no,
}


def ask(rng: random.Random, scene: Scene, kind: str) -> Question:
    """A question of a kind about a scene."""
    while True:
        question = MAKERS[kind](rng, scene)
        if question is not None:
            return question
