"""Sampled by chance from what a constraint allows, a reply has its form, with any tokenizer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from core.api.errors import ReplyFormatError
from core.api.reply_format import ReplyFormat
from core.engine.sampling import Constraint
from core.formats.check import fault
from core.text.chat_text import ChatText
from tests.text.chats import GRID, chat
from tests.text.conftest import folder_of, text_of

__all__ = ["folder_of", "text_of"]

SCHEMA = {
    "type": "object",
    "properties": {"a name": {"type": "string", "maxLength": 12}, "n": {"enum": [1, 23]}},
    "required": ["a name", "n"],
    "additionalProperties": False,
}
JSON = ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA))
WORDS = ReplyFormat(kind="choice", choices=("It shows", "It is brief", "not in the picture"))
FAMILIES = ("chatml", "llama3", "instruct", "gemma")


class SampledReply:
    """A reply sampled by chance; greedy for what ends it, so that strings do."""

    def __init__(self, text: ChatText, form: ReplyFormat, seed: int) -> None:
        rendered = text.render(chat("What is it?"), (), False, GRID)
        self.text, self.reader = text, text.reply_reader(rendered, (), form is WORDS)
        self.constraint = Constraint(form, text, rendered, False)
        self._chance = random.Random(seed)

    def allowed(self) -> list[int]:
        scores = self.constraint.limit(torch.zeros(self.text.vocab_size))
        found: list[int] = (scores == 0).nonzero().flatten().tolist()
        return found

    def sample(self, token_id: int | None = None) -> None:
        chosen = self._chance.choice(self.allowed()) if token_id is None else token_id
        self.constraint.accept(chosen)
        self.reader.push(chosen)

    def finish(self) -> str:
        for _ in range(300):
            self.sample()
            if self.reader.finished:
                break
        self.reader.close()
        return self.reader.answer


@pytest.mark.parametrize("form", [JSON, WORDS])
@pytest.mark.parametrize("family", FAMILIES)
def test_P3_any_sample_has_the_form(
    text_of: Callable[[str], ChatText], family: str, form: ReplyFormat
) -> None:
    for seed in range(8):
        sampled = SampledReply(text_of(family), form, seed)
        answer = sampled.finish()
        assert sampled.reader.finished and fault(form, answer) == "", answer


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_forced_is_what_the_tokenizer_writes(
    text_of: Callable[[str], ChatText], family: str
) -> None:
    text = text_of(family)
    form = ReplyFormat(kind="choice", choices=("It shows two red dots", "no"))
    sampled = SampledReply(text, form, 0)
    first = text.spelling.tokenize_str("It shows two red dots")[0]
    sampled.sample(first)
    forced = sampled.constraint.forced()
    assert len(forced) > 2
    assert sampled.constraint.fitting(forced) == forced
    for token_id in forced:
        assert token_id in sampled.allowed()
        sampled.sample(token_id)


def test_P2_a_draft_that_does_not_fit_is_cut_off_and_leaves_no_trace(
    text_of: Callable[[str], ChatText],
) -> None:
    sampled = SampledReply(text_of("chatml"), JSON, 0)
    vocabulary = range(sampled.text.vocab_size)
    chance = random.Random(1)
    while not sampled.reader.finished:
        before = sampled.allowed()
        for _ in range(3):
            draft = [chance.choice(vocabulary) for _ in range(7)]
            fits = sampled.constraint.fitting(draft)
            assert fits == draft[: len(fits)]
            assert (draft[0] in before) == bool(fits)
        assert sampled.allowed() == before
        sampled.sample(before[0])
    # The end is no part of the reply: it is not recorded, and may be asked about again.
    assert set(sampled.allowed()) == set(sampled.text.end_of_turn_ids)
    assert sampled.constraint.forced() == []
    assert fault(JSON, sampled.reader.answer) == ""


@pytest.mark.parametrize(("template_closes", "may_think"), [(True, False), (False, True)])
def test_no_thought_is_opened_behind_one_that_the_template_has_closed(
    text_of: Callable[[str], ChatText], template_closes: bool, may_think: bool
) -> None:
    text = text_of("chatml_thinking")
    rendered = text.render(chat("What is it?"), (), False, GRID)
    assert rendered.closes_reasoning
    rendered = replace(rendered, closes_reasoning=template_closes)
    scores = Constraint(JSON, text, rendered, None).limit(torch.zeros(text.vocab_size))
    assert bool(scores[text.thinking.open] == 0) is may_think


def test_the_end_comes_when_the_form_is_complete_and_no_sooner(
    text_of: Callable[[str], ChatText],
) -> None:
    sampled = SampledReply(text_of("chatml"), ReplyFormat(kind="choice", choices=("ab", "abc")), 0)
    stops = set(sampled.text.end_of_turn_ids)
    for token_id, may_end in zip(
        sampled.text.spelling.tokenize_bytes(b"ab"), (False, True), strict=True
    ):
        assert not stops & set(sampled.allowed())
        sampled.sample(token_id)
        assert bool(stops & set(sampled.allowed())) == may_end


def test_a_tokenizer_whose_tokens_spell_nothing_by_themselves_says_no(
    text_of: Callable[[str], ChatText], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of("instruct")
    monkeypatch.setattr(text._kit.tokenizer, "word_spaces", False)
    text.__dict__.pop("spelling", None)
    with pytest.raises(ReplyFormatError, match="tokenizer"):
        SampledReply(text, JSON, 0)


@pytest.mark.parametrize(
    "text", ["e\u0301 x", "a\u2581b", "<|im_end|></s>", " \u00a0", "\U0001f600"]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_forced_is_spelled_to_the_byte(
    text_of: Callable[[str], ChatText], family: str, text: str
) -> None:
    """Tokenizers write some text anew before they cut it."""
    spelling = text_of(family).spelling
    ids = spelling.tokenize_str(text)
    assert spelling.decode_bytes(ids) == text.encode()
    assert not any(map(spelling.is_special_token, ids))
