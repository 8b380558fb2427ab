"""Whole conversations: pictures shown, questions asked, facts told and asked back, small talk.

Pictures are numbers of a bank of scenes, so that a trainer can keep what the tower made of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import small_talk
from picture_talk import ask
from wording import ORDINALS, sentence, typed
from world import Scene

PICTURE_WEIGHTS = {
    "describe": 3,
    "count": 4,
    "colour": 4,
    "shape": 4,
    "where": 5,
    "size": 1,
    "place": 4,
    "yes_no": 8,
}


@dataclass(frozen=True)
class Turn:
    kind: str
    text: str
    answer: str
    pictures: tuple[int, ...] = ()
    thought: str = "I answer kindly."


@dataclass
class Conversation:
    """Turns in order, a system text if any, and how the template is to write them."""

    turns: list[Turn] = field(default_factory=list)
    system: str = ""
    thinking: bool = False
    picture_last: bool = False
    number_pictures: bool = False


@dataclass(frozen=True)
class Plan:
    """How long and how hard conversations are."""

    most_turns: int = 8
    most_pictures: int = 3
    share_without_pictures: float = 0.15
    share_thinking: float = 0.1
    held_out: bool = False
    # What a model gets wrong most can be asked more often than it comes by itself.
    share_told: float = 0.38
    share_invented_names: float = 0.4
    weights: dict[str, float] = field(default_factory=lambda: dict(PICTURE_WEIGHTS))


class Talk:
    """Makes one conversation, turn by turn."""

    def __init__(self, rng: random.Random, scenes: Sequence[Scene], plan: Plan) -> None:
        self.rng, self.scenes, self.plan = rng, scenes, plan
        self.shown: list[int] = []
        self.told: dict[str, str] = {}

    def picture_kind(self) -> str:
        kinds = self.plan.weights
        return self.rng.choices(list(kinds), list(kinds.values()))[0]

    def about(self, number: int, named: bool, shown: tuple[int, ...] = ()) -> Turn:
        """A question about picture `number` (from 0), which is named if `named`."""
        rng, kind = self.rng, self.picture_kind()
        question = ask(rng, self.scenes[self.shown[number]], kind)
        if not named:
            text = typed(rng, question.asked + question.mark)
            return Turn(kind, text, sentence(question), shown, question.thought)
        asked = question.asked.replace("this picture", "the picture").removesuffix(" here")
        asked = asked.replace(" in the picture", "")
        ordinal = ORDINALS[number]
        inside = f"in the {ordinal} picture"
        if "picture" in asked:
            asked = asked.replace("the picture", f"the {ordinal} picture")
        elif rng.random() < 0.8:
            asked = f"{asked} {inside}"
        else:
            asked = f"I{inside[1:]}, {asked[0].lower()}{asked[1:]}"
        kind = kind if number == len(self.shown) - 1 else "earlier"
        text = typed(rng, asked + question.mark)
        return Turn(kind, text, sentence(question, ordinal), shown, question.thought)

    def show(self, count: int) -> Turn:
        """New pictures, with a question about one of them."""
        rng = self.rng
        new = tuple(rng.sample(range(len(self.scenes)), count))
        self.shown += new
        if count > 1:
            return self.about(rng.randrange(len(self.shown)), True, new)
        if rng.random() < 0.04:
            question = ask(rng, self.scenes[new[0]], "describe")
            return Turn("describe", "", sentence(question), new, question.thought)
        return self.about(len(self.shown) - 1, rng.random() < 0.1, new)

    def look_again(self) -> Turn:
        last = len(self.shown) - 1
        if last > 0 and self.rng.random() < 0.6:
            return self.about(self.rng.randrange(last), True)
        return self.about(last, self.rng.random() < 0.15)

    def tell(self) -> Turn:
        fresh = [name for name in small_talk.FACTS if name not in self.told]
        name = self.rng.choice(fresh or list(small_talk.FACTS))
        invented = self.plan.share_invented_names
        fact = small_talk.random_fact(self.rng, name, self.plan.held_out, invented)
        self.told[name] = fact.value
        text, answer = small_talk.tell(self.rng, fact)
        return Turn("tell", typed(self.rng, text), answer)

    def recall(self) -> Turn:
        name = self.rng.choice(small_talk.FACTS)
        if self.told and self.rng.random() < 0.85:
            name = self.rng.choice(list(self.told))
        text, answer = small_talk.recall(self.rng, name, self.told.get(name))
        kind = "recall" if name in self.told else "not_told"
        return Turn(kind, typed(self.rng, text), answer, thought=small_talk.THOUGHTS[name])

    def beside(self) -> Turn:
        """Small talk, or a question from outside the world, or about a picture not shown."""
        rng, draw = self.rng, self.rng.random()
        if draw < 0.5:
            return Turn("filler", *self.spoken(small_talk.filler(rng)))
        if draw < 0.85 or len(self.shown) > 2:
            return Turn("outside", *self.spoken(small_talk.outside(rng)))
        question = ask(rng, rng.choice(self.scenes), self.picture_kind())
        if not self.shown:
            text = typed(rng, question.asked + question.mark)
            return Turn("no_picture", text, small_talk.NO_PICTURE)
        text = f"{question.asked.replace(' in the picture', '')} in the {ORDINALS[2]} picture"
        if "picture" in question.asked.replace(" in the picture", ""):
            text = f"Describe the {ORDINALS[2]} picture"
        return Turn("no_picture", typed(rng, text + "?"), small_talk.NO_SUCH_PICTURE)

    def spoken(self, pair: tuple[str, str]) -> tuple[str, str]:
        """The pair with its question as typed by somebody."""
        return typed(self.rng, pair[0]), pair[1]

    def next_turn(self) -> Turn:
        draw = self.rng.random()
        if self.shown and draw < 1 - self.plan.share_told:
            return self.look_again()
        choices = (self.tell, self.recall, self.beside)
        weights = (2, 5, 3) if self.told else (6, 1, 3)
        return self.rng.choices(choices, weights)[0]()

    def make(self) -> Conversation:
        rng, plan = self.rng, self.plan
        turns = rng.randint(1, plan.most_turns)
        pictures = 0 if rng.random() < plan.share_without_pictures else 1
        if pictures:
            pictures = rng.randint(1, plan.most_pictures)
        shows = [rng.randrange(turns) for _ in range(pictures)]
        talk = Conversation(picture_last=rng.random() < 0.08)
        talk.number_pictures = rng.random() < 0.04
        talk.system = rng.choice(small_talk.SYSTEM_TEXTS) if rng.random() < 0.2 else ""
        talk.thinking = rng.random() < plan.share_thinking
        for index in range(turns):
            count = shows.count(index)
            turn = self.show(count) if count else self.next_turn()
            talk.turns.append(turn)
        return talk


def make_conversation(rng: random.Random, scenes: Sequence[Scene], plan: Plan) -> Conversation:
    """A conversation after `plan` over pictures of the bank `scenes`."""
    return Talk(rng, scenes, plan).make()
