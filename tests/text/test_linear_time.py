"""Text from people and strangers takes time in proportion to its length, on every way through.

Each case is done at a quarter of a size and at twice the size, where quadratic work takes 64 times
the processor time. It may take 24 times; other programs may double either at most.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from core.api.chat import AssistantMessage, TextPart, UserMessage
from core.text.chat_text import ChatText
from core.text.history import joined_texts
from tests.text.chats import REPEATS_TEXT, added_id, chat, plain_ids, render, user
from tests.text.tiny_tokenizer import write_text_folder

slow = pytest.mark.slow
# Too little to compare.
FLOOR_S = 0.4
WORD = "stop"
# A template without a control token: the whole conversation is one text.
NO_TOKENS = "{% for m in messages %}{{ m.content + '\n' }}{% endfor %}"

Work = Callable[[int, int], object]
"""Does a size; the second number differs each time, so that nothing is remembered."""


def assert_linear(work: Work, size: int) -> None:
    """At twice the size, quadratic work takes seconds."""
    small = min(_seconds(work, size // 4, attempt) for attempt in range(3))
    large = _seconds(work, 2 * size, 3)
    assert large < 24 * small + FLOOR_S, f"{large:.2f} s, {small:.2f} s for an eighth of it"


def _seconds(work: Work, size: int, attempt: int) -> float:
    began = _processor_seconds()
    work(size, attempt)
    return _processor_seconds() - began


def _processor_seconds() -> float:
    """Of this process and of its helpers, which render templates."""
    helpers = 0.0
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # one of an earlier test may just end
            helpers += sum(each.cpu_times()[:2])
    return sum(os.times()[:4]) + helpers


def swallowing(folder: Path, template: str | None = None) -> ChatText:
    """A model whose end of turn swallows blanks, and with a token that must be a whole word."""
    path = write_text_folder(folder, "chatml", template) / "tokenizer.json"
    description = json.loads(path.read_text("utf-8"))
    entries = description["added_tokens"]
    for entry in entries:
        if entry["content"] == "<|im_end|>":
            entry.update(lstrip=True, rstrip=True)
    last = max(entry["id"] for entry in entries)
    entries.append({**entries[-1], "id": last + 1, "content": WORD, "single_word": True})
    path.write_text(json.dumps(description), "utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": last + 2}), "utf-8")
    return ChatText.open(folder)


@pytest.fixture(scope="module")
def spliced(tmp_path_factory: pytest.TempPathFactory) -> ChatText:
    text = swallowing(tmp_path_factory.mktemp("spliced"))
    assert text.spliced
    return text


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ChatText:
    text = swallowing(tmp_path_factory.mktemp("plain"), REPEATS_TEXT)
    assert not text.spliced
    return text


# What is typed, and how many times.
TYPED = {
    "blanks": (" ", 40_000),
    "newlines": ("\n", 40_000),
    "other blanks": ("\t\u2003\x1c", 13_000),
    "one spelling again and again": ("<|im_end|>", 20_000),
    "half a spelling again and again": ("<|im_end", 20_000),
    "a word that is a token": (WORD, 40_000),
    "private use": ("\ue000", 40_000),
    "marks": ("\ue0007\ue001", 20_000),
    "digits in a mark": ("7", 40_000),
    "mixed": ("<|im_end|> \n\ue0001 stop", 4_000),
}


@pytest.mark.parametrize("way", ["spliced", "plain"])
@pytest.mark.parametrize(
    "case", ["mixed", *(pytest.param(each, marks=slow) for each in TYPED if each != "mixed")]
)
def test_what_is_typed_is_rendered_in_linear_time(
    case: str, way: str, request: pytest.FixtureRequest
) -> None:
    """32,000 blanks took 8.6 s, and 150,000 ended the engine."""
    text: ChatText = request.getfixturevalue(way)
    typed, size = TYPED[case]

    def work(size: int, attempt: int) -> None:
        # Behind the first character of a mark, at the end of a message, and before its last word.
        many = typed * size
        render(text, chat(f"{attempt} \ue000{many}", AssistantMessage(text="b"), f"{many}a"))

    assert_linear(work, size)


@pytest.mark.parametrize("reply", ["", "a"])
def test_what_a_reply_is_stored_as_is_rendered_in_linear_time(reply: str, plain: ChatText) -> None:
    def work(size: int, attempt: int) -> None:
        answer = f"{attempt}" + "\n " * size + reply
        render(plain, chat("a", AssistantMessage(text=answer), "b"))

    assert_linear(work, 20_000)


def test_many_parts_of_one_message_are_joined_in_linear_time() -> None:
    part = "some words " * 10

    def work(size: int, attempt: int) -> None:
        joined = joined_texts(user(*[part] * size))
        assert isinstance(joined, UserMessage)
        assert [len(each.text) for each in joined.content if isinstance(each, TextPart)] == [
            len(part) * size
        ]

    assert_linear(work, 25_000)


def test_many_messages_find_their_places_in_linear_time(tmp_path: Path) -> None:
    text = ChatText.open(write_text_folder(tmp_path, "chatml", NO_TOKENS))

    said = "what does the picture show, in your own words?"

    def work(size: int, attempt: int) -> None:
        render(text, chat(*[f"{attempt}: {said}"] * size))

    assert_linear(work, 1_200)


@slow
def test_a_templates_own_text_is_split_in_linear_time(plain: ChatText) -> None:
    """Each place where a token for whole words was no whole word copied the text."""
    assert_linear(lambda size, at: list(plain._kit.added.split(f"{at}{WORD}s" * size)), 120_000)


@pytest.mark.parametrize("unit", [" ", *(pytest.param(each, marks=slow) for each in ("\n", "a"))])
@pytest.mark.parametrize("in_thought", [True, pytest.param(False, marks=slow)])
def test_a_reply_is_read_in_linear_time(
    unit: str, in_thought: bool, thinking_text: ChatText
) -> None:
    """Blanks at the end of a thought are held back: each copied all before it."""
    ids = plain_ids(thinking_text, unit)
    first = plain_ids(thinking_text, "a")
    close = added_id(thinking_text, "</think>")

    def work(size: int, attempt: int) -> None:
        rendered = render(thinking_text, chat("a"), thinking=in_thought)
        reader = thinking_text.reply_reader(rendered, ("never", "\n\n\n never"))
        for token_id in (*first, *ids * size):
            reader.push(token_id)
        for token_id in (close, *ids):
            reader.push(token_id)
        reader.close()

    assert_linear(work, 80_000 // len(ids))


def test_a_text_that_a_grammar_forces_is_spelled_in_linear_time(tmp_path: Path) -> None:
    """A token of any size made as many slices at each place, and llguidance panicked at 1,024."""
    path = write_text_folder(tmp_path, "chatml") / "tokenizer.json"
    description = json.loads(path.read_text("utf-8"))
    # Nothing is spelled as it is written, so the tokenizer's own ids are of no use.
    description["normalizer"] = {"type": "Lowercase"}
    long = max(description["model"]["vocab"].values()) + 100
    description["model"]["vocab"]["y" * 60_000] = long
    description["added_tokens"].append(
        {**description["added_tokens"][0], "id": long + 1, "content": "<" * 2_000}
    )
    path.write_text(json.dumps(description), "utf-8")
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": long + 2}), "utf-8")
    text = ChatText.open(tmp_path)

    def work(size: int, attempt: int) -> None:
        forced = f"{attempt}X y" * size
        assert b"".join(map(spelled, text.spelling.tokenize_str(forced))) == forced.encode()

    def spelled(token_id: int) -> bytes:
        return bytes(text.spelling.decode_bytes([token_id]))

    assert_linear(work, 500)
