"""Prompts against transformers' apply_chat_template, over several families of templates (T5).

The oracle renders plainly and encodes with the tokenizer as published; it is asked only for texts
that spell no added token, since for those it would answer differently by design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from core.api.chat import AssistantMessage, Message, SystemMessage, TextPart, UserMessage
from core.text.chat_text import ChatText
from tests.gguf.vocabularies import llama_models
from tests.text.chats import (
    IMAGE,
    PICTURE,
    added_id,
    chat,
    plain_ids,
    render,
    sampled,
    system,
    user,
    words,
)
from tests.text.tiny_tokenizer import FAMILIES, SIGHTED, write_text_folder

# The frames of gemma3 and gemma4 are their processors' work: test_gemma3_text, test_chat_text.
PICTURED = tuple(family for family in SIGHTED if family not in ("gemma3", "gemma4"))

LETTERS = "abc ABC 012 \u00e9\u4f60\u597d\u0301 .,!?'\"&<>/|{}[]()\\ \t\n\x0b\x85\u2028"
typed = st.text(st.sampled_from(LETTERS), max_size=40) | st.text(
    st.characters(exclude_categories=["Cs", "Co"]), max_size=20
)
# What somebody says; blank questions are refused, and some templates drop blank answers.
said = typed.filter(lambda text: bool(text.strip()))


def as_dict(message: Message) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        parts = [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
            for part in message.content
        ]
        lone = len(parts) == 1 and "text" in parts[0]
        return {"role": "user", "content": parts[0]["text"] if lone else parts}
    assert isinstance(message, AssistantMessage)
    told = {"role": "assistant", "content": message.text}
    return told | ({"reasoning_content": message.reasoning} if message.reasoning else {})


def _expected(tokenizer: Any, messages: Sequence[Message], thinking: bool | None) -> list[int]:
    extra: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    if thinking is False and "reasoning_effort" in tokenizer.chat_template:
        extra["reasoning_effort"] = "low"
    found: list[int] = tokenizer.apply_chat_template(
        [as_dict(message) for message in messages],
        add_generation_prompt=True,
        return_dict=False,
        **extra,
    )
    return found


def _prompt_ids(text: ChatText, messages: Sequence[Message], thinking: bool | None) -> list[int]:
    """Our ids with each picture as one placeholder, which is how the template writes it."""
    rendered = render(text, chat(*messages), thinking)
    size = IMAGE.num_tokens
    flat, pictures = rendered.prompt.ids(-1), []
    for token_id in flat:
        pictures.append(token_id)
        if pictures[-size:] == [-1] * size:
            pictures[-size:] = [text.image_token_id or 0]
    return pictures


def _spells_a_token(text: ChatText, messages: Sequence[Message]) -> bool:
    dump = "\0".join(message.model_dump_json() for message in messages)
    return any(token.spelling in dump for token in text._kit.added.tokens if not token.is_blank)


@given(st.sampled_from(FAMILIES), said, said, said, st.sampled_from([None, True, False]))
def test_T5_a_conversation_without_ids_equals_the_oracles(
    oracle: Callable[[str], tuple[ChatText, Any]],
    family: str,
    question: str,
    answer: str,
    rules: str,
    thinking: bool | None,
) -> None:
    text, tokenizer = oracle(family)
    told: tuple[list[Message], ...] = (
        [user(question)],
        [system(rules), user(question)],
        [system(rules), user(question), AssistantMessage(text=answer), user(rules)],
    )
    for messages in told:
        assume(not _spells_a_token(text, messages))
        expected = _expected(tokenizer, messages, thinking)
        assert _prompt_ids(text, messages, thinking) == expected


@given(st.sampled_from(PICTURED), said, said)
def test_T5_pictures_and_texts_in_any_order_equal_the_oracles(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str, before: str, after: str
) -> None:
    text, tokenizer = oracle(family)
    for content in ((PICTURE, before), (before, PICTURE), (before, PICTURE, PICTURE, after)):
        messages: list[Message] = [
            user(*content),
            AssistantMessage(text="two"),
            user(after, PICTURE),
        ]
        assume(not _spells_a_token(text, messages))
        assert _prompt_ids(text, messages, None) == _expected(tokenizer, messages, None)


@given(st.sampled_from(FAMILIES), said, said, said)
def test_T5_T2_a_spliced_reply_equals_the_oracles_where_it_was_sampled_as_it_reads(
    oracle: Callable[[str], tuple[ChatText, Any]],
    family: str,
    question: str,
    answer: str,
    follow_up: str,
) -> None:
    """The answer's own ids, as a model that writes like the oracle would have sampled them."""
    text, tokenizer = oracle(family)
    plain: list[Message] = [user(question), AssistantMessage(text=answer.strip()), user(follow_up)]
    assume(not _spells_a_token(text, plain))
    assume(not _joins_its_surroundings(answer.strip()))
    ids = plain_ids(text, text._traits.reply_space + answer.strip())
    spliced: list[Message] = [plain[0], sampled(text, ids, answer=answer), plain[2]]
    assert _prompt_ids(text, spliced, None) == _expected(tokenizer, plain, None)


def _joins_its_surroundings(answer: str) -> bool:
    """A mark or sign at the start could join the line end before it in the oracle's piece."""
    return not answer[:1].isalnum() or not answer[0].isascii()


@given(said, said, st.sampled_from(["chatml_thinking", "chatml_keeps_thoughts"]))
def test_T5_thoughts_equal_the_oracles(
    oracle: Callable[[str], tuple[ChatText, Any]], thought: str, answer: str, family: str
) -> None:
    text, tokenizer = oracle(family)
    thought, answer = "so " + thought.strip(), "well " + answer.strip()
    reply = AssistantMessage(text=answer, reasoning=thought)
    plain: list[Message] = [user("why?"), reply, user("and?")]
    assume(not _spells_a_token(text, plain))
    expected = _expected(tokenizer, plain, True)
    assert _prompt_ids(text, plain, True) == expected
    close = added_id(text, "</think>")
    ids = [*plain_ids(text, thought + "\n"), close, *plain_ids(text, "\n\n" + answer)]
    spliced: list[Message] = [
        plain[0],
        sampled(text, ids, in_thought=True, answer=answer),
        plain[2],
    ]
    assert _prompt_ids(text, spliced, True) == expected


def test_the_oracle_escapes_json_as_we_do(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ m | tojson }}{{ [1, 'é<'] | tojson(indent=2) }}{% endfor %}"
    )
    folder = write_text_folder(tmp_path, "chatml", template)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    plain = [{"role": "user", "content": "<b>'é'</b> & \"q\""}]
    expected = tokenizer.apply_chat_template(plain, tokenize=False)
    kit = ChatText.open(folder)._kit
    assert kit.template.render(plain, None, 0.0) == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_templates_render_as_the_oracles(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, tokenizer = oracle(family)
    plain = [{"role": "user", "content": " <s> what </think> <|im_end|> "}]
    expected = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    assert text._kit.template.render(plain, None, 0.0) == expected


# ------------------------------------------------------------------ published templates

MINISTRAL, LFM = "mistralai-Ministral-3-14B-Reasoning-2512", "LFM2.5-8B-A1B"
NEMOTRON = "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


@pytest.mark.parametrize(
    ("name", "kind", "ends", "thinking", "thought"),
    [
        # These two have no switch, and open their thoughts themselves.
        (MINISTRAL, "mistral", "[/INST]", None, "[THINK]hm[/THINK]"),
        (MINISTRAL, "mistral", "[/INST]", None, ""),
        (LFM, "lfm2", "<|im_end|>", None, "<think>hm</think>"),
        (LFM, "lfm2", "<|im_end|>", None, ""),
        (NEMOTRON, "chatml", "<|im_end|>", True, "hm\n</think>\n"),
        (NEMOTRON, "chatml", "<|im_end|>", False, ""),
    ],
)
def test_T1_T5_three_turns_of_a_published_template(
    name: str, kind: str, ends: str, thinking: bool | None, thought: str, tmp_path: Path
) -> None:
    source = (llama_models() / "templates" / f"{name}.jinja").read_text("utf-8")
    text = ChatText.open(write_text_folder(tmp_path, kind, source))
    tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert text.spliced and text.thinking.known
    assert text.has_thinking_switch == (thinking is not None)
    said: list[Message | str] = [system("Be brief.")]
    asked, end = list[int](), added_id(text, ends)
    for question, answer in (("What is it?", "It shows two"), ("And?", "One line"), ("Why?", "")):
        said.append(question)
        rendered = render(text, chat(*said), thinking)
        found = rendered.prompt.ids(0)
        shown = [as_dict(message) for message in chat(*said).messages]
        options = {"add_generation_prompt": True, "enable_thinking": thinking is not False}
        expected = tokenizer.apply_chat_template(shown, tokenize=False, **options)
        assert found == tokenizer.encode(expected, add_special_tokens=False)
        assert words(text, found) == expected
        assert found[: len(asked)] == asked and rendered.opens_reasoning is bool(thinking)
        asked = found[: len(found) - found[::-1].index(end)]
        ids = text._kit.tokenizer.encode_published(thought) + plain_ids(text, answer)
        reply = sampled(text, ids, rendered.opens_reasoning, answer)
        said.append(reply.model_copy(update={"reasoning": "hm" if thought else ""}))
    other = render(text, chat(*said[:3], "Or else?"), thinking)
    start = other.message_starts[2].value
    assert other.prompt.ids(0)[:start] == asked[:start] and start > 12
