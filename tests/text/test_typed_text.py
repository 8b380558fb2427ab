"""Whatever people type stays text (I5): spellings of tokens, marks, characters that bite."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import AssistantMessage, ReplyIds
from core.helper.process import Helper
from core.text.chat_text import ChatText
from core.text.files import read_text_files
from core.text.kit import TEXT_MEMORY_BYTES
from core.text.tokenizer import Tokenizer
from tests.text.chats import TextOf, chat, ids, library_tokenizer, render, system, words
from tests.text.tiny_tokenizer import (
    CHATML_CONTROL,
    CHATML_MARKS,
    FAMILIES,
    GEMMA_CONTROL,
    GEMMA_MARKS,
    INSTRUCT_CONTROL,
    LLAMA3_CONTROL,
)

SPELLINGS = [*CHATML_CONTROL, *CHATML_MARKS, *INSTRUCT_CONTROL, *LLAMA3_CONTROL]
SPELLINGS += [*GEMMA_CONTROL, *GEMMA_MARKS]
BITING = [
    "\ue000",
    "\ue001",
    "\ue0000\ue001",
    "\0",
    "e\u0301",
    "\u200b",
    "\u2028",
    "\x1c",
    "\ufeff",
]
HALVES = ["<|im_", "start|>", "<", ">", "</", "think", "[INST]", "{{ x }}", "{% if %}", "\n", " "]

nasty = st.lists(
    st.one_of(st.sampled_from(SPELLINGS + BITING + HALVES), st.text(max_size=8)), max_size=12
).map("".join)
families = st.sampled_from(FAMILIES)


def _controls(text: ChatText, token_ids: list[int]) -> list[int]:
    control = {token.id for token in text._kit.added.tokens if not token.is_blank}
    return [token_id for token_id in token_ids if token_id in control]


@given(families, nasty, nasty, nasty)
def test_I5_typed_spellings_never_become_tokens(
    text_of: TextOf, family: str, first: str, second: str, rules: str
) -> None:
    """The control tokens of a prompt are those of the same prompt with harmless words."""
    text = text_of(family)
    typed = chat(
        system("x" + rules), "x" + first, AssistantMessage(text="y" + second), second + "z"
    )
    harmless = chat(system("x"), "x", AssistantMessage(text="y"), "z")
    rendered = render(text, typed)
    assert _controls(text, ids(rendered)) == _controls(text, ids(render(text, harmless)))
    assert rendered.prompt.images == ()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_I5_every_spelling_alone_is_text_and_reads_as_typed(text_of: TextOf, spelling: str) -> None:
    for family in FAMILIES:
        text = text_of(family)
        rendered = render(text, chat(f"a{spelling}b"))
        assert _controls(text, ids(rendered)) == _controls(text, ids(render(text, chat("ab"))))
        assert f"a{spelling}b" in words(text, ids(rendered))


@given(families, nasty)
def test_a_text_reads_as_it_was_typed(text_of: TextOf, family: str, typed: str) -> None:
    """Nothing is lost or added, whatever stands in it (byte-level families are exact)."""
    text = text_of(family)
    tokenizer = library_tokenizer(text)
    if tokenizer.decoder is None or not family.startswith("chatml"):
        return
    normal = tokenizer.normalizer.normalize_str(typed)
    encoded = text._kit.tokenizer.ids(typed)
    assert tokenizer.decode(encoded, skip_special_tokens=False) == normal


def test_lone_surrogates_become_replacement_characters(chat_text: ChatText) -> None:
    tokenizer = chat_text._kit.tokenizer
    assert tokenizer.ids("a\ud800b\udfff") == tokenizer.ids("a\ufffdb\ufffd")


def test_I5_a_vocabulary_that_spells_a_control_token_is_cleaned() -> None:
    """A unigram model would take the token out of its own vocabulary, at the best score of all."""
    pieces = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], *([letter, -5.0] for letter in "<s>/ab")]
    entries = [
        {"id": index, "content": name, "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
        for index, name in enumerate(("<unk>", "<s>", "</s>"))
    ]  # fmt: skip
    description = {
        "version": "1.0",
        "added_tokens": entries,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
    }
    data = json.dumps(description).encode()
    tokenizer = Tokenizer(lambda: data, Helper(TEXT_MEMORY_BYTES))
    assert tokenizer.ids("a<s>b</s>") == [7, 3, 4, 5, 8, 3, 6, 4, 5]


def test_a_reply_of_another_tokenizer_may_spell_anything(thinking_text: ChatText) -> None:
    foreign = ReplyIds.pack([1, 2], "another", False)
    reply = AssistantMessage(text="a</think>b<|im_end|>", reasoning="<think>", ids=foreign)
    rendered = render(thinking_text, chat("q", reply, "r"))
    assert "assistant\na</think>b<|im_end|><|im_end|>\n" in words(thinking_text, ids(rendered))
    expected = ids(render(thinking_text, chat("q", AssistantMessage(text="a"), "r")))
    assert _controls(thinking_text, ids(rendered)) == _controls(thinking_text, expected)


def test_blank_added_tokens_stay_what_the_model_was_taught(
    text_of: TextOf, folder_of: Callable[[str], Path]
) -> None:
    text = text_of("gemma")
    (double,) = (token for token in text._kit.added.tokens if token.is_blank)
    assert double.spelling == "\n\n"
    assert double.id in ids(render(text, chat("a\n\nb")))
    assert read_text_files(folder_of("gemma")).fingerprint == text.tokenizer_fingerprint
