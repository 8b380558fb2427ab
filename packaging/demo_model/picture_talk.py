"""What is asked about a picture, in varied wording, and the one right answer in fixed wording."""

from __future__ import annotations

import random
from collections.abc import Callable

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
from world import COLOURS, PLACES, SHAPES, SIZES, Scene, Thing

TIMES = {2: "twice", 3: "three times", 4: "four times"}
Maker = Callable[[random.Random, Scene], Question | None]


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
    """The answer where the words pick no thing, or several."""
    if not handle.things:
        return Question(kind, asked, f"the {handle.words} is not there", thought=thought)
    if len(handle.things) > 1:
        named = listing([full_name(thing) for thing in handle.things])
        clause = f"the {handle.words} is there {TIMES[len(handle.things)]}: {named}"
        return Question(kind, asked, clause, thought=thought)
    return None


def describe(rng: random.Random, scene: Scene) -> Question:
    """Everything in the picture."""
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
    return (
        f"{noun} {asked_place(rng, thing.cell)}",
        f"the shape {at_place(thing.cell)}",
        thing,
    )


def colour(rng: random.Random, scene: Scene) -> Question:
    """The colour of a shape named by its kind, size or place."""
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
    """The kind of a shape named by its colour, size or place."""
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
    """The place of a shape."""
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
    """Whether a shape is small or large."""
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


def place(rng: random.Random, scene: Scene) -> Question:
    """What lies at a place."""
    cell = some_cell(rng, scene, 0.7)
    spoken = asked_place(rng, cell)
    forms = (f"What is {spoken}", f"What do you see {spoken}", f"What can you see {spoken}")
    thought = f"I look {at_place(cell)}."
    return Question("place", rng.choice(forms), content_of(scene, cell), thought=thought)


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
    """Is the star at the top left?"""
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
