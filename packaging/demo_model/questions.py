"""Held-out conversations as an application would send them, by kind of the last question.

The test set is drawn once, from its own seed and from scenes and names that training never uses;
the validation set, from another seed, is what decisions are made on.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from conversations import Conversation, Plan, Turn, make_conversation
from PIL import Image
from world import Scene, draw_scene, draw_scene_from, random_size

SEEDS = {"validation": 1001, "test": 2002}
KINDS = (
    "describe",
    "count",
    "colour",
    "shape",
    "where",
    "size",
    "place",
    "yes_no",
    "earlier",
    "recall",
    "not_told",
    "tell",
    "filler",
    "outside",
    "no_picture",
)
SCENES = 600
Message = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A conversation up to a question, and the right answer."""

    kind: str
    messages: list[Message]
    expected: str
    thinking: bool


def user_message(turn: Turn, talk: Conversation, pictures: list[Image.Image]) -> Message:
    shown = [{"type": "image", "image": pictures[number]} for number in turn.pictures]
    said = [{"type": "text", "text": turn.text}] if turn.text else []
    parts = [*said, *shown] if talk.picture_last else [*shown, *said]
    return {"role": "user", "content": parts}


def case_of(talk: Conversation, pictures: list[Image.Image]) -> Case:
    messages: list[Message] = [{"role": "system", "content": talk.system}] if talk.system else []
    for turn in talk.turns:
        messages.append(user_message(turn, talk, pictures))
        messages.append({"role": "assistant", "content": turn.answer})
    last = talk.turns[-1]
    return Case(last.kind, messages[:-1], last.answer, talk.thinking)


def held_out_talks(split: str, thinking: bool) -> Iterator[tuple[Conversation, list[Image.Image]]]:
    """Endless held-out conversations of a split, with the split's pictures."""
    rng = random.Random(SEEDS[split])
    scenes: list[Scene] = [draw_scene_from(rng, held_out=True) for _ in range(SCENES)]
    pictures = [draw_scene(scene, rng, random_size(rng)) for scene in scenes]
    plan = Plan(held_out=True, share_thinking=1.0 if thinking else 0.0)
    while True:
        talk = make_conversation(rng, scenes, plan)
        talk.number_pictures = False
        yield talk, pictures


def cut(talk: Conversation, rng: random.Random) -> Conversation:
    return replace(talk, turns=talk.turns[: rng.randint(1, len(talk.turns))])


def cases(split: str, per_kind: int, thinking: bool = False) -> list[Case]:
    """`per_kind` cases of every kind."""
    rng = random.Random(SEEDS[split] + 1)
    found: dict[str, list[Case]] = defaultdict(list)
    for talk, pictures in held_out_talks(split, thinking):
        case = case_of(cut(talk, rng), pictures)
        if len(found[case.kind]) < per_kind:
            found[case.kind].append(case)
        if all(len(found[kind]) >= per_kind for kind in KINDS):
            return [case for kind in KINDS for case in found[kind]]
    raise AssertionError("the stream of conversations is endless")
