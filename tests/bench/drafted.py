"""Replies with known tokens, and drafts of them, for `speculation`.

A model of random weights is made to say a given text, so every run computes the same tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch

from core.api.chat import Message, TextPart, UserMessage
from core.engine.drafting.speculation import HeadDrafter
from core.engine.sampling import Sampler

RATES = (0.0, 0.7)
SOURCE = Path(__file__).parents[2] / "docs" / "architecture.md"


@dataclass(frozen=True)
class Case:
    """A chat, its reply (None: the model's own), and how it is drafted."""

    name: str
    chat: tuple[Message, ...]
    reply: tuple[int, ...] | None
    mode: str
    # How often a drafted token is right; None where it is what it is.
    rate: float | None = None


def cases(count: int, encode: Callable[[str], Sequence[int]]) -> Iterator[Case]:
    """Replies of so many tokens."""
    text = SOURCE.read_text("utf-8")
    prose, question = tuple(encode(text[2000:8000])[:count]), asked("What is this about?")
    yield Case("prose, from the chat", question, prose, "lookup")
    shown, said = edited(count, encode, text)
    yield Case("a text with every 25th word changed, from the chat", asked(shown), said, "lookup")
    for rate in RATES:
        yield Case(f"of a head, {rate:.0%} made right", question, prose, "mtp", rate)


def asked(text: str) -> tuple[Message, ...]:
    return (UserMessage(content=(TextPart(text=text),)),)


def edited(
    count: int, encode: Callable[[str], Sequence[int]], text: str
) -> tuple[str, tuple[int, ...]]:
    """A text to be edited as a prompt, and so many tokens of it, edited."""
    words = text[2000:8000].split(" ")
    changed = [word if index % 25 else "otherwise" for index, word in enumerate(words, start=1)]
    original = encode(" ".join(words))[: 2 * count]
    said = tuple(encode(" ".join(changed))[:count])
    shown = " ".join(words)[: 6 * len(original)]
    return f"Change some words of this: {shown}", said


@contextmanager
def saying(case: Case) -> Iterator[None]:
    """Inside, a model says this, and is guessed as the case has it."""
    if case.reply is None:
        yield
        return
    sample, made = Sampler.sample, iter(case.reply)

    def said(sampler: Sampler, logits: torch.Tensor, index: int) -> int:
        sample(sampler, logits, index)
        return next(made)

    with patch.object(Sampler, "sample", said), _guessed(case, case.reply):
        yield


@contextmanager
def _guessed(case: Case, reply: tuple[int, ...]) -> Iterator[None]:
    if case.rate is None:
        yield
        return
    rate, chance, take = case.rate, random.Random(7), HeadDrafter._take

    def head_take(drafter: HeadDrafter, depth: int) -> list[int]:
        take(drafter, depth)
        drawn = drafter._next - drafter._start.token.value
        right = reply[drawn : drawn + depth]
        return [each if chance.random() < rate else (each + 1) % 500 for each in right]

    with patch.object(HeadDrafter, "_take", head_take):
        yield
