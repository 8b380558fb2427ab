"""Words for the demo model's world: names, places, lists, and the ways people type."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from world import PLACES, SHAPES, Scene, Thing

NUMBERS = ("no", "one", "two", "three", "four")
ORDINALS = ("first", "second", "third")
PLURALS = {shape: "crosses" if shape == "cross" else f"{shape}s" for shape in SHAPES}


@dataclass(frozen=True)
class Question:
    """One question and its answer; `verdict` is "yes" or "no" where that was asked."""

    kind: str
    asked: str
    clause: str
    verdict: str = ""
    thought: str = "I look at the picture."
    mark: str = "?"


def at_place(cell: int) -> str:
    place = PLACES[cell]
    return "in the centre" if place == "centre" else f"at the {place}"


def asked_place(rng: random.Random, cell: int) -> str:
    """Names for the place of a cell."""
    place = PLACES[cell]
    if rng.random() < 0.6:
        return at_place(cell)
    if place == "centre":
        return rng.choice(("in the center", "in the middle", "at the centre"))
    vertical, horizontal = place.split()
    ways = [f"on the {place}", f"in the {place}"]
    if "middle" not in place:
        upper = {"top": "upper", "bottom": "lower"}[vertical]
        ways += [f"at the {upper} {horizontal}", f"in the {place} corner"]
    if vertical == "middle":
        ways += [f"in the centre {horizontal}", f"on the {horizontal} in the middle"]
    if horizontal == "middle":
        ways += [f"at the {vertical} centre", f"at the {vertical} in the middle"]
    return rng.choice(ways)


def with_article(words: str) -> str:
    """`words` behind "a" or "an"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def full_name(thing: Thing) -> str:
    """A thing with all that can be told apart, its place too."""
    return f"{with_article(f'{thing.size} {thing.colour} {thing.shape}')} {at_place(thing.cell)}"


def listing(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def i_see(count: int, one: str, many: str) -> str:
    """ "I see one star", "I see no stars"."""
    return f"I see {NUMBERS[count]} {one if count == 1 else many}"


def list_things(things: Sequence[Thing], one: str, many: str) -> str:
    """ "I see two stars: a small red star …"."""
    return f"{i_see(len(things), one, many)}: {listing([full_name(t) for t in things])}"


@dataclass(frozen=True)
class Handle:
    """Words that pick things out of a picture, and the things they pick."""

    words: str
    plural: str
    things: tuple[Thing, ...]


def handle_of(scene: Scene, shape: str = "", colour: str = "", size: str = "") -> Handle:
    wanted = {"shape": shape, "colour": colour, "size": size}
    given = {name: value for name, value in wanted.items() if value}
    things = tuple(t for t in scene.things if all(getattr(t, n) == v for n, v in given.items()))
    before = [word for word in (size, colour) if word]
    one = " ".join([*before, shape or "shape"])
    many = " ".join([*before, PLURALS[shape] if shape else "shapes"])
    return Handle(one, many, things)


def sentence(question: Question, picture: str = "") -> str:
    """The whole answer; `picture` names the picture it is about, where that was asked.

    Evidence comes before every verdict ("… is blue, so no"): a model this small looks things up
    while it says their names; with "No, …" first it guessed, after 3,700 steps still 55 % right.
    """
    inside = f"in the {picture} picture " if picture else ""
    verdict = f", so {question.verdict}" if question.verdict else ""
    text = f"{inside}{question.clause}{verdict}."
    return text[0].upper() + text[1:]


def typed(rng: random.Random, text: str) -> str:
    """`text` as somebody may type it: American spelling, "image", no capital, no mark."""
    if rng.random() < 0.3:
        text = text.replace("colour", "color")
    if rng.random() < 0.4:
        text = text.replace("picture", "image")
    if rng.random() < 0.05:
        text = text.replace("What is", "What's").replace("Where is", "Where's")
    if rng.random() < 0.12:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.08 and text[-1] in "?.!":
        text = text[:-1]
    return text
