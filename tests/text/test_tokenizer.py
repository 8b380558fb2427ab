"""The tokenizer's cache is bounded and forgotten, and its tokens have a longest size."""

from __future__ import annotations

import json
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import BrokenTokenizerError
from core.helper.process import Helper
from core.text.chat_text import ChatText
from core.text.kit import TEXT_MEMORY_BYTES
from core.text.tokenizer import LONGEST_TOKEN_BYTES, Encoded, TextCache, Tokenizer
from tests.text.chats import REPEATS_TEXT, TextOf, chat, render
from tests.text.tiny_tokenizer import write_text_folder


def numbers(count: int) -> tuple[array[int]]:
    return (array("I", range(count)),)


def test_what_is_remembered_is_bounded_in_bytes_and_the_oldest_goes_first() -> None:
    asked: list[str] = []

    def find(text: str, count: int = 100) -> None:
        def ask() -> tuple[array[int]]:
            asked.append(text)
            return numbers(count)

        assert texts.find("kind", text, ask) == numbers(count)
        assert texts.num_bytes <= texts.most_bytes

    texts = TextCache(2_000)
    for text in ("one", "two", "one", "three", "one", "two"):
        find(text)
    assert asked == ["one", "two", "three", "two"]
    find("much too large", 1_000)
    find("one")
    assert asked[-2:] == ["much too large", "one"]


def test_a_kind_of_question_and_half_a_character_are_told_apart() -> None:
    texts = TextCache(2**20)
    keys = [("a", "b"), ("a\0b", ""), ("a", "\ud800"), ("a", "\ufffd")]
    for count, (kind, text) in enumerate(keys[:1] + keys[2:]):
        assert texts.find(kind, text, partial(numbers, count)) == numbers(count)


@pytest.fixture
def plain(tmp_path: Path) -> ChatText:
    """A model whose replies can't be spliced: each turn finds added tokens in all of the chat."""
    text = ChatText.open(write_text_folder(tmp_path, "chatml", REPEATS_TEXT))
    assert not text.spliced
    return text


def remembered(text: ChatText) -> tuple[TextCache, TextCache]:
    return text._kit.tokenizer.cached_ids, text._kit.tokenizer.cached_places


def test_a_turn_adds_no_copy_of_the_chat_to_what_is_remembered(plain: ChatText) -> None:
    """Each turn of a chat of a megabyte added a megabyte."""
    said = ["some words " * 10_000]
    render(plain, chat(*said))
    before = sum(each.num_bytes for each in remembered(plain))
    for turn in range(10):
        said.append(f"turn {turn}")
        render(plain, chat(*said))
    assert sum(each.num_bytes for each in remembered(plain)) - before < 50_000
    for each in remembered(plain):
        assert all(isinstance(key, bytes) and len(key) == 32 for key in each._known)


def test_what_was_encoded_once_is_not_encoded_again(
    text_of: TextOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation is sent whole with every turn."""
    text = text_of("chatml_thinking")
    tokenizer, encoded = text._kit.tokenizer, list[int]()
    encode = tokenizer.encode_uncached

    def noted(typed: str, at_start: bool) -> Encoded:
        encoded.append(len(typed))
        return encode(typed, at_start)

    monkeypatch.setattr(tokenizer, "encode_uncached", noted)
    first = render(text, chat("Once upon a time", "there was"))
    encoded.clear()
    assert render(text, chat("Once upon a time", "there was")).prompt == first.prompt
    assert not encoded
    render(text, chat("Once upon a time", "there will be"))
    assert 0 < sum(encoded) < len("there will be") + 40
    monkeypatch.setattr(tokenizer.cached_ids, "most_bytes", 400 + 12 * 8)
    encoded.clear()
    for typed in ("a" * 12, "b" * 12, "a" * 12, "a" * 12):
        tokenizer.ids(typed)
    assert encoded == [12, 12, 12]


def test_M2_what_is_remembered_of_texts_goes_with_a_deleted_chat(
    plain: ChatText, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[str] = []
    helper = plain._kit.tokenizer._helper
    ask = helper.ask

    def noted(task: str, *args: object, **kwargs: object) -> object:
        tasks.append(task)
        return ask(task, *args, **kwargs)  # type: ignore[arg-type]

    first = render(plain, chat("a secret"))
    monkeypatch.setattr(helper, "ask", noted)
    plain.forget()
    assert tasks == ["tokenizer.forget"]
    assert [each.num_bytes for each in remembered(plain)] == [0, 0]
    assert render(plain, chat("a secret")).prompt == first.prompt
    assert "tokenizer.encode" in tasks
    # A helper that has ended remembers nothing, and isn't started to forget it.
    helper.close()
    tasks.clear()
    plain.forget()
    assert not tasks


def built(decoder: dict[str, Any] | None, *tokens: str) -> Tokenizer:
    vocab = {token: number for number, token in enumerate(("a", *tokens))}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "a"}
    data = json.dumps({"version": "1.0", "added_tokens": [], "model": model, "decoder": decoder})
    return Tokenizer(data.encode, Helper(TEXT_MEMORY_BYTES))


def test_a_tokenizer_with_a_longer_token_is_refused_by_name() -> None:
    longest = "x" * LONGEST_TOKEN_BYTES
    assert built(None, longest).table.token(1) == longest
    for token in (longest + "x", "\u00e9" * (LONGEST_TOKEN_BYTES // 2 + 1), "x" * 2**23):
        with pytest.raises(BrokenTokenizerError, match="more than 64 KiB"):
            built(None, token)


def test_a_decoder_that_makes_more_of_a_token_is_refused_when_it_does() -> None:
    replaced = {"type": "Replace", "pattern": {"String": "b"}, "content": "x" * 2**20}
    tokenizer = built(replaced, "b")
    assert tokenizer.decode([0]) == ["a"]
    with pytest.raises(BrokenTokenizerError, match="more than 64 KiB"):
        tokenizer.decode([1])
