"""A token is sent as soon as it is sampled, so its text is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.api.errors import BrokenTokenizerError
from core.helper.process import Helper
from core.text.kit import TEXT_MEMORY_BYTES
from core.text.tokenizer import LONGEST_TOKEN_BYTES, Tokenizer


def built(decoder: dict[str, Any] | None, *tokens: str) -> Tokenizer:
    """A tokenizer of these tokens, "a" the first."""
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
